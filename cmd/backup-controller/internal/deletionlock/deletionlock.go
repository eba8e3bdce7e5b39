// Package deletionlock keeps two things apart in a lineage: deleting backups, and writing one that may refer to what is
// deleted. Whoever deletes locks the lineage first, and then asks the API server whether a Backup is being written; whoever
// starts the Job of a Backup records its plan first, and then looks whether the lineage is locked. Whatever the order, one of
// them waits.
package deletionlock

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Locks are those of all lineages. The zero value is ready. They hold in one process: the others, which don't lead, delete
// nothing.
type Locks struct {
	mu      sync.Mutex
	holders map[string]int // by lineage
}

// Lock locks a lineage until unlock is called. Any number may hold it at once: deletions don't exclude each other.
func (l *Locks) Lock(lineage string) (unlock func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders == nil {
		l.holders = map[string]int{}
	}
	l.holders[lineage]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.holders[lineage]--; l.holders[lineage] == 0 {
			delete(l.holders, lineage)
		}
	})
}

// Locked says that something is being deleted from the lineage.
func (l *Locks) Locked(lineage string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holders[lineage] > 0
}

// Writing names a Backup of the lineage that is being written; empty if there is none. The reader must not be a cache.
func Writing(ctx context.Context, reader client.Reader, namespace, lineage string) (string, error) {
	backups := &v1alpha1.BackupList{}
	if err := reader.List(ctx, backups, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list Backups: %w", err)
	}
	for i := range backups.Items {
		status := &backups.Items[i].Status
		if status.Plan != nil && status.Plan.Lineage == lineage && status.CompletedAt == nil {
			return backups.Items[i].Name, nil
		}
	}
	return "", nil
}
