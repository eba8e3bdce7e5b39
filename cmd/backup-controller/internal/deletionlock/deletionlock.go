// Package deletionlock keeps things apart in a lineage. Deleting backups, and writing one that may refer to what is deleted: whoever
// deletes locks the lineage first, and then asks the API server whether a Backup is being written; whoever starts the Job of a Backup
// records its plan first, and then looks whether the lineage is locked. Whatever the order, one of them waits. And deleting here and
// elsewhere: see pkg/backup/bucketlock.
package deletionlock

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/objstore"
)

// Locks are those of all lineages. The zero value is ready. They hold in one process. The others, which don't lead, delete nothing, except
// for one that led before and was frozen: it doesn't know yet. So in a bucket each process is a holder of its own.
type Locks struct {
	mu      sync.Mutex
	holders map[string]int // by lineage
	buckets map[place]*shared
	process string     // empty: nothing was locked in a bucket yet
	left    *sync.Cond // nil: nobody waits until all buckets are unlocked
}

// place is a lineage in the bucket of a repository.
type place struct{ repository, lineage string }

// shared is a lock in a bucket, which all deletions of this process hold together.
type shared struct {
	users int // those that hold it, or are about to

	mu      sync.Mutex
	holders int
	held    bucketlock.Held
	since   time.Time // when it was put, by the clock of this process
	release func()
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

// LockBucket locks a lineage in its bucket, too, where somebody else may delete: another Kubernetes, or a person with howdah-backup. What is
// deleted must be deleted with the context that it returns.
func (l *Locks) LockBucket(ctx context.Context, store objstore.Store, repo *v1alpha1.BackupRepository, lineage string) (context.Context, func(), error) {
	where := place{string(repo.UID), lineage}
	lock := l.use(where)
	holder := bucketlock.Holder{ID: string(repo.UID) + "-" + l.processID(), Name: fmt.Sprintf("The backup-controller for BackupRepository %s/%s", repo.Namespace, repo.Name)}
	locked, cancel, err := lock.join(ctx, store, lineage, holder)
	if err != nil {
		l.leave(where)
		return nil, nil, err
	}
	return locked, sync.OnceFunc(func() {
		cancel()
		lock.leave()
		l.leave(where)
	}), nil
}

// ServerTime is what time it is in the bucket of a repository, while a lineage is locked there. Nobody's clock here counts.
func (l *Locks) ServerTime(repo *v1alpha1.BackupRepository, lineage string) time.Time {
	l.mu.Lock()
	lock := l.buckets[place{string(repo.UID), lineage}]
	l.mu.Unlock()
	return lock.serverTime()
}

// processID is random: the successor of a frozen process may run in a pod of the same name.
func (l *Locks) processID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == "" {
		l.process = strings.ToLower(rand.Text())
	}
	return l.process
}

// Start lets the process end only when it has unlocked all buckets: nobody else could delete from these lineages before the locks end. It is
// for the manager, which bounds how long it waits.
func (l *Locks) Start(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = sync.NewCond(&l.mu)
	for len(l.buckets) > 0 {
		l.left.Wait()
	}
	return nil
}

func (l *Locks) use(where place) *shared {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buckets == nil {
		l.buckets = map[place]*shared{}
	}
	if l.buckets[where] == nil {
		l.buckets[where] = &shared{}
	}
	l.buckets[where].users++
	return l.buckets[where]
}

func (l *Locks) leave(where place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buckets[where].users--; l.buckets[where].users == 0 {
		delete(l.buckets, where)
		if l.left != nil {
			l.left.Broadcast()
		}
	}
}

// join puts the lock, or holds the one that another deletion of this process has put.
func (s *shared) join(ctx context.Context, store objstore.Store, lineage string, holder bucketlock.Holder) (context.Context, context.CancelFunc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == 0 {
		held, release, err := bucketlock.Lock(ctx, store, lineage, holder)
		if err != nil {
			return nil, nil, err
		}
		s.held, s.since, s.release = held, time.Now(), release
	}
	s.holders++
	locked, cancel := context.WithDeadline(ctx, s.held.Until)
	return locked, cancel, nil
}

// serverTime goes on by the monotonic clock of this process.
func (s *shared) serverTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held.At.Add(time.Since(s.since))
}

func (s *shared) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders--; s.holders == 0 {
		s.release()
	}
}

// Reading names a Restore whose plan is to read a backup, until it has handed the data over or has failed; empty if there is none. The reader must
// not be a cache.
func Reading(ctx context.Context, reader client.Reader, namespace, lineage, id string) (string, error) {
	restores := &v1alpha1.RestoreList{}
	if err := reader.List(ctx, restores, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list Restores: %w", err)
	}
	for i := range restores.Items {
		status := &restores.Items[i].Status
		if plan := status.Plan; plan != nil && plan.Lineage == lineage && plan.BackupID == id &&
			status.CompletedAt == nil && status.Handover == nil && status.RestoredAt == nil && status.Failure == nil {
			return restores.Items[i].Name, nil
		}
	}
	return "", nil
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
