package verify

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/flow"
)

// manifest is what the inventory of the repository says of the manifest of a backup, as far as it is news.
type manifest int

const (
	manifestKnown    manifest = iota // nothing new
	manifestLost                     // it is missing, and the status doesn't say so
	manifestReturned                 // it is there, and the status says that it is missing
)

// manifestNews compares the inventory with what the status says. A verification that has ended since knows better.
func manifestNews(backup *v1alpha1.Backup, missing bool, looked time.Time) manifest {
	switch said := lacksManifest(backup); {
	case looked.IsZero() || underWay(backup) || !succeeded(backup) || backup.Status.VerifiedAt != nil && !backup.Status.VerifiedAt.Time.Before(looked):
		return manifestKnown
	case missing && !said:
		return manifestLost
	case !missing && said:
		return manifestReturned
	}
	return manifestKnown
}

// news is manifestNews of what was found last.
func (r *Reconciler) news(repo *v1alpha1.BackupRepository, backup *v1alpha1.Backup) manifest {
	if repo == nil || r.Manifest == nil {
		return manifestKnown
	}
	missing, looked := r.Manifest(repo.UID, backup.UID)
	return manifestNews(backup, missing, looked)
}

// lacksManifest: the status says that the manifest is missing.
func lacksManifest(backup *v1alpha1.Backup) bool {
	last := backup.Status.Verification
	return last != nil && last.CompletedAt != nil && len(last.Wrong) == 1 && last.Wrong[0] == missingManifest(backup)
}

// missingManifest is what is wrong then. A verification says the same of it if it is damaged, in other words.
func missingManifest(backup *v1alpha1.Backup) v1alpha1.WrongObject {
	return v1alpha1.WrongObject{Object: manifestOf(backup), Detail: "it is missing"}
}

func manifestOf(backup *v1alpha1.Backup) string {
	return layout.ManifestKey(backup.Status.Plan.Lineage, backup.Status.Plan.ID)
}

// noteLost says that the manifest is missing, as a verification would: there is no backup without it.
func (r *Reconciler) noteLost(_ context.Context, o *observed) flow.Outcome {
	last := o.backup.Status.Verification
	if last == nil {
		last = &v1alpha1.BackupVerification{Attempt: 1, StartedAt: metav1.Time{Time: o.now.Truncate(time.Second)}}
	}
	next := last.DeepCopy()
	next.CompletedAt, next.Objects, next.CheckedBytes, next.WrongObjects = &metav1.Time{Time: o.now}, 1, 0, 1
	next.Wrong = []v1alpha1.WrongObject{missingManifest(o.backup)}
	o.backup.Status.VerifiedAt, o.backup.Status.Verification = &metav1.Time{Time: o.now}, next
	return flow.Save(v1alpha1.ReasonManifestMissing, fmt.Sprintf("%s was deleted from BackupRepository %s, so there is no backup any more. No incremental Backup builds on it. "+
		"If the bucket keeps versions, restore that object; otherwise delete this Backup.", manifestOf(o.backup), o.repo.Name))
}

// noteReturned forgets that the manifest was missing.
func (r *Reconciler) noteReturned(_ context.Context, o *observed) flow.Outcome {
	o.backup.Status.VerifiedAt, o.backup.Status.Verification = nil, nil
	return flow.Save(v1alpha1.ReasonNotVerifiedYet, fmt.Sprintf("%s is in BackupRepository %s again. Nothing was verified since.", manifestOf(o.backup), o.repo.Name))
}
