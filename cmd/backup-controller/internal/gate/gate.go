// Package gate keeps two things apart in a lineage: deleting backups, and writing one that may point at what is deleted.
// Who deletes closes the gate, and then asks the API server whether a Backup is under way; who starts the Job of a Backup
// has recorded its plan before, and then looks whether the gate is closed. Whatever the order, one of them waits.
package gate

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Gate of all lineages. The zero value is ready. It is of one process: the others, which don't lead, delete nothing.
type Gate struct {
	mu     sync.Mutex
	closed map[string]int
}

// Close closes the gate of a lineage until open is called. Several may have it closed at once.
func (g *Gate) Close(lineage string) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = map[string]int{}
	}
	g.closed[lineage]++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.closed[lineage]--; g.closed[lineage] == 0 {
			delete(g.closed, lineage)
		}
	})
}

// Closed says that something is being deleted from the lineage.
func (g *Gate) Closed(lineage string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed[lineage] > 0
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
