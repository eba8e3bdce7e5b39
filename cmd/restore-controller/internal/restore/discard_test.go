package restore

import (
	"context"
	"strings"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// discards has the observed Restore hold the lock of a cluster whose data it is about to discard.
func discards(o *observed) {
	grant(o)
	o.restore.Spec.Destination.InPlace.SafetyBackup, o.restore.Spec.Destination.InPlace.DiscardPrevious = true, true
	o.restore.Status.Plan.DiscardsPrevious, o.restore.Status.Plan.Repository = true, "main"
	o.restore.Status.SafetyBackup = "shop-safety"
	o.restore.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1", SystemIdentifier: "7", MajorVersion: 17}
	o.cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "main"}}
	o.safety = &v1alpha1.Backup{Status: v1alpha1.BackupStatus{Plan: &v1alpha1.BackupPlan{ID: "shop-safety-1"}}}
}

func TestTheJobArchivesWhatItDiscardsOnlyIntoTheArchiveOfTheCluster(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*observed)
		want   *agentapi.PreviousArchive
	}{
		"the restore reads from it":           {func(*observed) {}, &agentapi.PreviousArchive{ClusterUID: "c", SafetyBackup: "shop-safety-1"}},
		"the safety backup was deleted":       {func(o *observed) { o.safety = nil }, &agentapi.PreviousArchive{ClusterUID: "c"}},
		"the restore reads from another one":  {func(o *observed) { o.restore.Status.Plan.Repository = "old" }, nil},
		"the cluster does not archive (more)": {func(o *observed) { o.cluster.Spec.Archive = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := seenInPlace(func(o *observed) { discards(o); test.change(o) })
			got := o.previousArchive()
			if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestDataIsNotDiscardedAfterAnUncleanShutdown(t *testing.T) {
	o := seenInPlace(discards)
	if failure := o.failure(); failure != nil {
		t.Fatalf("%+v", failure)
	}
	o.cluster.Status.VolumeLocks[0].Shutdown = v1alpha1.ShutdownUnclean
	if failure := o.failure(); failure == nil || failure.Reason != v1alpha1.ReasonUncleanShutdown {
		t.Errorf("%+v", failure)
	}
	o.job.Exists = true // it looks itself, and may have discarded the data by now
	if failure := o.failure(); failure != nil {
		t.Errorf("%+v", failure)
	}
}

func TestAFailureBeforeTheDiscardSaysThatThePreviousDataStays(t *testing.T) {
	for reason, want := range map[string]string{
		v1alpha1.ReasonPreviousDataNotArchived: "continues with its previous data",
		v1alpha1.ReasonUncleanShutdown:         "continues with its previous data",
		v1alpha1.ReasonPreviousDataDiscarded:   "restore Backup shop-safety in place",
		v1alpha1.ReasonJobFailed:               "restore Backup shop-safety in place",
	} {
		o := seenInPlace(discards)
		now := o.cluster.CreationTimestamp
		o.restore.Status.DownAt, o.restore.Status.Failure = &now, &v1alpha1.Failure{Reason: reason, Message: "It failed."}
		if outcome := concludeInPlace(context.Background(), o); !strings.Contains(outcome.Message, want) {
			t.Errorf("%s: %+v", reason, outcome)
		}
	}
}
