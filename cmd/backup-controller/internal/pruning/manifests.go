package pruning

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// manifests says of Backups whether the manifest that makes them backups is in the bucket.
type manifests struct {
	began   time.Time // the run that looked
	missing map[types.UID]bool
}

// Manifest says whether the manifest of a Backup that has succeeded is missing from its bucket, as the last run of this process has found it, and
// when that began; zero: it didn't look.
func (k *Pruner) Manifest(repo, backup types.UID) (missing bool, looked time.Time) {
	k.mu.Lock()
	known := k.known[repo]
	k.mu.Unlock()
	if known == nil {
		return false, time.Time{}
	}
	found := known.manifests.Load()
	if found == nil {
		return false, time.Time{}
	}
	if missing, seen := found.missing[backup]; seen {
		return missing, found.began
	}
	return false, time.Time{}
}

// lookForManifests finds the Backups whose manifests somebody has deleted from the bucket. That the inventory doesn't show one is no evidence, as
// the Backup may be newer: then the bucket is asked for it. Where there is no such lineage, this may be another bucket, and nothing is known.
func (r *run) lookForManifests(ctx context.Context) error {
	listed, known := map[v1alpha1.FoundBackup]bool{}, map[string]bool{}
	for i := range r.lineages {
		l := &r.lineages[i]
		known[l.Lineage.Lineage] = l.Known()
		for _, b := range l.Backups {
			listed[r.place(l.Lineage.Lineage, b.ID)] = true
		}
		for _, id := range l.Damaged {
			listed[r.place(l.Lineage.Lineage, id)] = true
		}
	}
	found := &manifests{began: r.now, missing: map[types.UID]bool{}}
	for i := range r.facts.backups {
		b := &r.facts.backups[i]
		plan := b.Status.Plan
		if plan == nil || plan.Repository != r.repo.Name || !known[plan.Lineage] || !b.DeletionTimestamp.IsZero() || b.Status.CompletedAt == nil ||
			!meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionSucceeded) {
			continue
		}
		missing := false
		if !listed[r.place(plan.Lineage, plan.ID)] {
			_, err := r.store.Stat(ctx, layout.ManifestKey(plan.Lineage, plan.ID))
			if missing = errors.Is(err, objstore.ErrNotFound); err != nil && !missing {
				return err
			}
		}
		found.missing[b.UID] = missing
	}
	r.memory.manifests.Store(found)
	return nil
}
