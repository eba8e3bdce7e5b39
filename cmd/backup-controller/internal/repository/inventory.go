package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/pruning"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/repostore"
)

// soon is the time between two looks at a repository of whose Backups one has come, ended or gone.
const soon = 10 * time.Second

// look has the bucket looked through and cleaned up beside this pass, and takes over what the last look has found.
func (r *Reconciler) look(_ context.Context, o *observed) flow.Outcome {
	repo := o.repo.DeepCopy()
	repo.Status.Identity = cmp.Or(repo.Status.Identity, o.checked.Identity) // status has it after this pass
	work := func(ctx context.Context) pruning.Result { return r.Pruner.Run(ctx, repo, o.mark) }
	key := fmt.Sprintf("%d/%s", repo.Generation, o.secret)
	found, known := r.Looks.Do(o.repo, key, pruning.Interval, work)
	again := recheckGood
	switch {
	case !known:
		return flow.Poll(again, o.checked.Reason, o.checked.Message)
	case found.Err != nil:
		again = recheckBad
	case found.Mark != o.mark, found.Again:
		again = soon
	}
	if again < recheckGood {
		found, _ = r.Looks.Do(o.repo, key, again, work)
	}
	found.Report(o.repo, explain)
	return flow.Poll(again, o.checked.Reason, o.checked.Message)
}

// markOf changes when a Backup in the repository comes, ends, is held or let go, or goes. Their order doesn't matter: a cache lists them in
// another one each time.
func markOf(repo *v1alpha1.BackupRepository, backups []v1alpha1.Backup) string {
	var marks []string
	for i := range backups {
		b := &backups[i]
		plan := b.Status.Plan
		if plan == nil || plan.Repository != repo.Name {
			continue
		}
		marks = append(marks, fmt.Sprintln(b.UID, b.Status.CompletedAt.IsZero(), b.Spec.Hold, b.DeletionTimestamp.IsZero()))
	}
	slices.Sort(marks)
	sum := sha256.Sum256([]byte(strings.Join(marks, "")))
	return hex.EncodeToString(sum[:8])
}

// explain is a sentence about an error of a look.
func explain(err error) string {
	if errors.Is(err, repostore.ErrSecret) {
		return sentence(secretMessage(err))
	}
	return sentence(objstore.Explain(err))
}
