package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repostore"
)

// found is what work in a store came to.
type found struct {
	header *backup.Header
	err    error
	// limit is the time that the work had, and late says that it needed more.
	limit time.Duration
	late  bool
}

// next is the time that the next attempt has. Reading what a long history needs may take long, and each attempt begins anew: if it never had
// more time, it would never end.
func (f found) next() time.Duration {
	if !f.late {
		return storeTimeout
	}
	return min(2*f.limit, longestTimeout)
}

// settle finds out what a Job that has ended has left: a committed backup counts, whatever its pod said or didn't live
// to say; anything else is removed. It waits until the store can be asked.
func (r *Reconciler) settle(ctx context.Context, o *observed) flow.Outcome {
	if o.planned == nil {
		return flow.Poll(storeRetry, v1alpha1.ReasonRepositoryNotFound, repositoryGone(o))
	}
	result, known := r.inStore(o, "settle", r.lookAndClear)
	switch {
	case !known:
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, "The Job has ended. The controller looks at what it left in the repository.")
	case errors.Is(result.err, bucketlock.ErrHeld):
		return flow.Poll(storeRetry, v1alpha1.ReasonRunning, fmt.Sprintf("The Job has ended. What it left in BackupRepository %s can't be deleted now: %s.",
			o.planned.Name, result.err))
	case result.err != nil:
		return flow.Poll(storeRetry, v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf(
			"The Job has ended, but what it left in BackupRepository %s can't be read: %s", o.planned.Name, explain(result.err)))
	case result.header != nil:
		return o.complete(resultOf(result.header))
	}
	return flow.Next
}

// tidy is settle for a backup that has failed or was cancelled: it tries once, and continues without. What stays is
// removed with the Backup.
func (r *Reconciler) tidy(_ context.Context, o *observed) flow.Outcome {
	if o.backup.Status.Plan == nil || o.planned == nil {
		return flow.Next
	}
	result, known := r.inStore(o, "settle", r.lookAndClear)
	switch {
	case !known:
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, "The Job has ended. What it left in the repository is being removed.")
	case result.err == nil && result.header != nil:
		return o.complete(resultOf(result.header))
	}
	return flow.Next
}

// inStore does work for this attempt in the background. A failure is tried again after a while, with more time if there was too little.
func (r *Reconciler) inStore(o *observed, what string, work func(context.Context, *observed) found) (found, bool) {
	plan := o.backup.Status.Plan
	key := fmt.Sprintf("%s/%s/%s/%d", what, plan.Repository, plan.Lineage, plan.Attempt)
	seen := &observed{backup: o.backup.DeepCopy(), planned: o.planned.DeepCopy()}
	within := func(limit time.Duration) func(context.Context) found {
		return func(ctx context.Context) found {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			result := work(ctx, seen)
			result.limit, result.late = limit, result.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
			return result
		}
	}
	result, known := r.Stores.Do(o.backup, key, time.Hour, within(storeTimeout))
	if known && result.err != nil {
		result, known = r.Stores.Do(o.backup, key, storeRetry, within(result.next()))
	}
	return result, known
}

func (r *Reconciler) lookAndClear(ctx context.Context, o *observed) found {
	plan := o.backup.Status.Plan
	store, err := r.Open(ctx, r.Client, o.planned)
	if err != nil {
		return found{err: err}
	}
	header, err := backup.Committed(ctx, store, plan.Lineage, plan.ID)
	if !errors.Is(err, objstore.ErrNotFound) {
		return found{header: header.Brief(), err: err}
	}
	return r.clearAway(ctx, store, o)
}

// clearAway removes what is not committed, while nobody else deletes from the lineage. A worker that was given up may commit it at any moment,
// and whoever sees it then may delete all others. So it is looked for again once the lineage is locked, and counts if it is there.
func (r *Reconciler) clearAway(ctx context.Context, store objstore.Store, o *observed) found {
	plan := o.backup.Status.Plan
	defer r.Deletions.Lock(plan.Lineage)()
	locked, unlock, err := r.Deletions.LockBucket(ctx, store, o.planned, plan.Lineage)
	if err != nil {
		return found{err: err}
	}
	defer unlock()
	header, err := backup.Committed(locked, store, plan.Lineage, plan.ID)
	if !errors.Is(err, objstore.ErrNotFound) {
		return found{header: header.Brief(), err: err}
	}
	_, err = backup.Delete(locked, store, plan.Lineage, plan.ID)
	return found{err: err}
}

func repositoryGone(o *observed) string {
	return fmt.Sprintf("BackupRepository %s, which the plan of this backup names, no longer exists. Create it again.", o.backup.Status.Plan.Repository)
}

// explain is a sentence about an error of a store.
func explain(err error) string {
	if errors.Is(err, repostore.ErrSecret) {
		return flow.Sentence(strings.TrimPrefix(err.Error(), repostore.ErrSecret.Error()+": "))
	}
	return flow.Sentence(objstore.Explain(err))
}
