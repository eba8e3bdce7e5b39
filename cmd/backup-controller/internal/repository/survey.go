package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/retention"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repository"
)

// soon is the time between two looks at a repository of whose Backups one has come, ended or gone.
const soon = 10 * time.Second

// survey has the repository looked through and cleaned up beside this pass, and reports what the last look has found.
func (r *Reconciler) survey(w *world, checked flow.Outcome) time.Duration {
	if checked.Reason != v1alpha1.ReasonAvailable || !w.repo.DeletionTimestamp.IsZero() {
		return 0
	}
	repo := w.repo.DeepCopy()
	work := func(ctx context.Context) retention.Result { return r.Keeper.Run(ctx, repo, w.mark) }
	key := fmt.Sprintf("%d/%s", repo.Generation, w.secret)
	found, known := r.Surveys.Do(w.repo, key, retention.Interval, work)
	if !known {
		return 0
	}
	again := time.Duration(0)
	switch {
	case found.Err != nil:
		again = recheckBad
	case found.Mark != w.mark:
		again = soon
	}
	if again > 0 {
		found, _ = r.Surveys.Do(w.repo, key, again, work)
	}
	found.Report(w.repo, explain)
	return again
}

// markOf changes when a Backup in the repository comes, ends, is held or let go, or goes.
func markOf(repo *v1alpha1.BackupRepository, backups []v1alpha1.Backup) string {
	sum := sha256.New()
	for i := range backups {
		b := &backups[i]
		plan := b.Status.Plan
		if plan == nil || plan.Repository != repo.Name {
			continue
		}
		fmt.Fprintln(sum, b.UID, b.Status.CompletedAt.IsZero(), b.Spec.Hold, b.DeletionTimestamp.IsZero())
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// explain is a sentence about an error of a look.
func explain(err error) string {
	if errors.Is(err, repository.ErrSecret) {
		return sentence(secretMessage(err))
	}
	return sentence(objstore.Explain(err))
}
