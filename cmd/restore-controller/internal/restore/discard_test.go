package restore

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// An undo of an earlier Restore leads back to data with the same system identifier, of which the safety backup has nothing.
func TestOnlyDataThatTheSafetyBackupIsOfIsDiscarded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed)
		fails  bool
	}{
		"it is of the data":              {func(*observed) {}, false},
		"other data runs by then":        {func(o *observed) { o.cluster.Status.DataGeneration = "g5" }, true},
		"it was deleted":                 {func(o *observed) { o.safety = nil }, true},
		"it is being deleted":            {func(o *observed) { o.safety.DeletionTimestamp = &metav1.Time{Time: o.now} }, true},
		"the cluster archives elsewhere": {func(o *observed) { o.cluster.Spec.Archive.Repository.Name = "other" }, true},
		"the cluster archives nothing":   {func(o *observed) { o.cluster.Spec.Archive = nil }, true},
		"the previous data stays":        {func(o *observed) { o.safety, o.restore.Status.Plan.DiscardsPrevious = nil, false }, false},
		"it may be discarded by now":     {func(o *observed) { discards(o); o.cluster.Status.DataGeneration = "g5" }, false},
		"the volumes aren't granted yet": {func(o *observed) { o.cluster.Status.VolumeLocks, o.cluster.Status.DataGeneration = nil, "g5" }, false},
	} {
		o := seenInPlace(func(o *observed) {
			discards(o)
			o.restore.Status.Previous = nil
			o.safety.Status.Plan.Lineage, o.safety.Status.Plan.Repository = "7-g0", "minio"
			o.cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
			o.safety.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue}}
			c.change(o)
		})
		if failure := o.failure(); (failure != nil) != c.fails || c.fails && failure.Reason != v1alpha1.ReasonClusterReplaced {
			t.Errorf("%s: %+v", name, failure)
		}
	}
}

func TestConfirmedDataReplacesThePreviousOnceThereIsABackupOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed)
		waits  bool
	}{
		"there is none":              {func(*observed) {}, true},
		"there is one":               {func(o *observed) { o.restorable = true }, false},
		"the removal has begun":      {func(o *observed) { o.restore.Status.Release = &v1alpha1.ReleaseRequest{} }, false},
		"nothing is archived":        {func(o *observed) { o.cluster.Spec.Archive = nil }, false},
		"the cluster is gone":        {func(o *observed) { o.cluster = nil }, false},
		"the cluster is deleted":     {func(o *observed) { o.cluster.DeletionTimestamp = &metav1.Time{Time: o.now} }, false},
		"it was discarded anyway":    {func(o *observed) { o.restore.Status.Plan.DiscardsPrevious = true }, false},
		"the previous data runs now": {func(o *observed) { o.cluster.Status.DataGeneration = "g0" }, false},
	} {
		o := seenInPlace(func(o *observed) {
			decideOn(o, v1alpha1.DecisionConfirm)
			o.cluster.Spec.Archive = &v1alpha1.ArchiveSpec{}
			c.change(o)
		})
		if got := awaitRestorable(t.Context(), o); got.Finished() == c.waits || c.waits && got.Reason != v1alpha1.ReasonAwaitingBackup {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
