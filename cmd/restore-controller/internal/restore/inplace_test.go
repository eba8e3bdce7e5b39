package restore

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// inPlaceWorld is of a Restore r of the cluster shop in place, which runs on g0.
func inPlaceWorld(change func(*world)) *world {
	return aWorld(func(w *world) {
		w.restore.Spec.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
		w.cluster = &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "c"}}
		w.cluster.Status = v1alpha1.PostgresClusterStatus{
			SystemIdentifier: "7", MajorVersion: 17, DataGeneration: "g0", Image: "postgres:17", Primary: "shop-1",
			Instances: []v1alpha1.InstanceStatus{{Name: "shop-0"}, {Name: "shop-1"}},
		}
		change(w)
	})
}

func planInPlace(w *world) {
	w.restore.Status.Cluster = &v1alpha1.CreatedCluster{Name: "shop", UID: "c"}
	w.restore.Status.Plan = &v1alpha1.RestorePlan{SystemIdentifier: "7", MajorVersion: 17, DataGeneration: "g1"}
}

// grant lets the db-controller have granted the volumes.
func grant(w *world) {
	planInPlace(w)
	w.restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{ClusterUID: "c", Token: protocol.Token("uid", 0)}
	w.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{
		RequesterUID: "uid", Token: protocol.Token("uid", 0), State: v1alpha1.VolumeLockGranted,
		Volumes: []v1alpha1.LockedVolume{{Instance: "shop-1", ClaimName: "data-shop-1"}, {Instance: "shop-0", ClaimName: "data-shop-0"}},
	}}
}

// run lets the cluster run on the restored data.
func run(w *world) {
	planInPlace(w)
	status := &w.restore.Status
	status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17"}
	status.DownAt, status.RestoredAt = &metav1.Time{Time: time.Unix(995, 0)}, &metav1.Time{Time: time.Unix(998, 0)}
	w.cluster.Status.DataGeneration = "g1"
}

// discard lets the Job be giving up the data of before.
func discard(w *world) {
	grant(w)
	w.restore.Status.Plan.DiscardsPrevious, w.restore.Status.SafetyBackup = true, "shop-safety"
	w.restore.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1"}
}

func decide(w *world, decision v1alpha1.RestoreDecision) {
	run(w)
	w.restore.Status.Decided = &v1alpha1.DecidedRestore{Decision: decision}
}

func TestWhatIsSeenDecidesWhatIsDoneInPlace(t *testing.T) {
	const (
		plan   = "ensureFinalizer preflight preflightInPlace pinPlan"
		normal = plan + " askSafetyBackup awaitSafetyBackup askHold awaitHold pinBefore runJob awaitJob handOver awaitRestored"
		back   = "stopJob takeBack awaitTakenBack withdrawHold awaitHoldGone letGoOfRestored"
		giveUp = "pinFailure " + back + " concludeInPlace"
	)
	deleted := metav1.NewTime(time.Unix(999, 0))
	backupFailed := func(w *world) {
		planInPlace(w)
		w.restore.Status.BackupRequest = &v1alpha1.BackupRequest{Token: "t"}
		w.first = &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: "t"}}}
		w.first.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse}}
	}
	for name, test := range map[string]struct {
		change func(*world)
		want   string
	}{
		"a new one":                {func(*world) {}, normal},
		"a plan is all":            {func(w *world) { w.restore.Spec.Mode = v1alpha1.RestorePlanOnly }, plan},
		"there is no such cluster": {func(w *world) { w.cluster = nil }, normal}, // preflight says so
		"the volumes are granted":  {grant, normal},
		"another database by then": {func(w *world) { grant(w); w.cluster.Status.SystemIdentifier = "8" }, giveUp},
		"upgraded by then":         {func(w *world) { grant(w); w.cluster.Status.MajorVersion = 18 }, giveUp},
		"the cluster is replaced":  {func(w *world) { planInPlace(w); w.cluster.UID = "d" }, giveUp},
		"the cluster goes":         {func(w *world) { planInPlace(w); w.cluster.DeletionTimestamp = &deleted }, giveUp},
		"cancelled":                {func(w *world) { grant(w); w.restore.Spec.Cancel = true }, giveUp},
		"its Job failed":           {func(w *world) { grant(w); w.job = workload.State{Exists: true, Failed: true} }, giveUp},
		"the safety backup failed": {backupFailed, giveUp},
		"it doesn't come up": {func(w *world) {
			grant(w)
			w.restore.Status.HandedOverAt = &metav1.Time{Time: w.now.Add(-startLimit - time.Second)}
		}, giveUp},
		"it is still coming up": {func(w *world) {
			grant(w)
			w.restore.Status.HandedOverAt = &metav1.Time{Time: w.now.Add(-time.Minute)}
		}, normal},
		"deleted before": {func(w *world) { grant(w); w.restore.DeletionTimestamp = &deleted }, back + " removeFinalizer"},
		"cancelled while it gives up what was before": {func(w *world) { discard(w); w.restore.Spec.Cancel = true }, normal},
		"deleted then":        {func(w *world) { discard(w); w.restore.DeletionTimestamp = &deleted }, normal},
		"its Job failed then": {func(w *world) { discard(w); w.job = workload.State{Exists: true, Failed: true} }, giveUp},
		"its Job failed then, deleted": {func(w *world) {
			discard(w)
			w.job = workload.State{Exists: true, Failed: true}
			w.restore.DeletionTimestamp = &deleted
		}, back + " removeFinalizer"},
		"it doesn't come up then": {func(w *world) {
			discard(w)
			w.restore.Status.HandedOverAt = &metav1.Time{Time: w.now.Add(-startLimit - time.Second)}
		}, normal},
		"restored":              {run, "decide"},
		"cancelled too late":    {func(w *world) { run(w); w.restore.Spec.Cancel = true }, "decide"},
		"deleted when restored": {func(w *world) { run(w); w.restore.DeletionTimestamp = &deleted }, "decide"},
		"confirmed":             {func(w *world) { decide(w, v1alpha1.DecisionConfirm) }, "letGoOfBefore finishConfirmed"},
		"to be undone":          {func(w *world) { decide(w, v1alpha1.DecisionUndo) }, "askUndo awaitUndo handBack awaitBack"},
		"deleted while it is undone": {func(w *world) {
			decide(w, v1alpha1.DecisionUndo)
			w.restore.DeletionTimestamp = &deleted
		}, "askUndo awaitUndo handBack awaitBack"},
		"undone": {func(w *world) {
			decide(w, v1alpha1.DecisionUndo)
			w.restore.Status.UndoneAt = &deleted
		}, "awaitHoldGone letGoOfRestored concludeUndone"},
		"deleted when it could not be undone": {func(w *world) {
			decide(w, v1alpha1.DecisionUndo)
			w.restore.Status.CompletedAt, w.restore.DeletionTimestamp = &deleted, &deleted
		}, "letGoOfBefore removeFinalizer"},
		"deleted when it was undone": {func(w *world) {
			decide(w, v1alpha1.DecisionUndo)
			w.restore.Status.UndoneAt, w.restore.Status.CompletedAt, w.restore.DeletionTimestamp = &deleted, &deleted, &deleted
		}, "removeFinalizer"},
		"deleted when it was confirmed": {func(w *world) {
			decide(w, v1alpha1.DecisionConfirm)
			w.restore.Status.CompletedAt, w.restore.DeletionTimestamp = &deleted, &deleted
		}, "removeFinalizer"},
		"ended": {func(w *world) { run(w); w.restore.Status.CompletedAt = &deleted }, "awaitFirstBackup expire"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names((&Reconciler{}).plan(inPlaceWorld(test.change))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestOnlyAClusterWithDataIsRestoredInPlace(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		kind   flow.Kind
		reason string
	}{
		"all is well":              {func(*world) {}, flow.KindNext, ""},
		"no cluster":               {func(w *world) { w.cluster, w.now = nil, w.now.Add(time.Minute) }, flow.KindStop, v1alpha1.ReasonClusterNotFound},
		"no cluster yet":           {func(w *world) { w.cluster = nil }, flow.KindWait, v1alpha1.ReasonClusterNotFound},
		"a cluster that goes":      {func(w *world) { w.cluster.DeletionTimestamp = &metav1.Time{Time: w.now} }, flow.KindStop, v1alpha1.ReasonClusterReplaced},
		"a cluster without data":   {func(w *world) { w.cluster.Status.SystemIdentifier = "" }, flow.KindWait, v1alpha1.ReasonClusterNotReady},
		"a cluster that sleeps":    {func(w *world) { w.cluster.Spec.Hibernate = true }, flow.KindWait, v1alpha1.ReasonClusterNotReady},
		"a cluster that is in use": {func(w *world) { w.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{RequesterUID: "other"}} }, flow.KindWait, v1alpha1.ReasonQueued},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Reconciler{}).preflightInPlace(context.Background(), inPlaceWorld(test.change))
			if got.Kind != test.kind || got.Reason != test.reason || got.Kind != flow.KindNext && got.Message == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestABackupThatCannotTakeThePlaceIsRefused(t *testing.T) {
	storage := func(w *world, used string) {
		capacity, full := resource.MustParse("10Gi"), resource.MustParse(used)
		w.cluster.Status.Instances[1].Storage = &v1alpha1.InstanceStorage{Capacity: &capacity, Used: &full}
	}
	for name, test := range map[string]struct {
		change func(*world, *backup.Head)
		want   string
	}{
		"it fits":          {func(*world, *backup.Head) {}, ""},
		"there is room":    {func(w *world, _ *backup.Head) { storage(w, "7Gi") }, ""},
		"there is no room": {func(w *world, _ *backup.Head) { storage(w, "9Gi") }, "2112Mi is needed beside it, and the volume of shop-1 has 1Gi free: raise spec.storage.size of PostgresCluster shop"},
		"there is no room, and what was before may go": {func(w *world, _ *backup.Head) {
			storage(w, "9Gi")
			w.restore.Spec.Destination.InPlace.DiscardPrevious = true
		}, ""},
		"there is no room in all": {func(w *world, h *backup.Head) {
			storage(w, "9Gi")
			w.restore.Spec.Destination.InPlace.DiscardPrevious, h.Totals.LogicalBytes = true, 10<<30
		}, "10304Mi is needed, and the volume of shop-1 has 10Gi in all: raise spec.storage.size of PostgresCluster shop"},
		"another version":  {func(_ *world, h *backup.Head) { h.PGMajor = 15 }, "is of PostgreSQL 15, and shop runs 17"},
		"another database": {func(_ *world, h *backup.Head) { h.SystemIdentifier = "8" }, "is of another database (system identifier 8) than the one of shop (7)"},
	} {
		t.Run(name, func(t *testing.T) {
			head := &backup.Head{ID: "b", PGMajor: 17, SystemIdentifier: "7", Totals: backup.Totals{LogicalBytes: 2 << 30}}
			w := inPlaceWorld(func(w *world) { test.change(w, head) })
			got := fitsInPlace(w, head)
			if got.Finished() != (test.want == "") || !strings.Contains(got.Message, test.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTheTimeIsForeseenByTheLastRestore(t *testing.T) {
	plan := &v1alpha1.RestorePlan{WriteBytes: 10 << 30, WALSegments: 50}
	if got := expected(plan, nil); got != 0 {
		t.Errorf("without one: %d", got)
	}
	last := &v1alpha1.Restore{}
	last.Status.Plan = &v1alpha1.RestorePlan{WriteBytes: 1 << 30, WALSegments: 10}
	last.Status.Reached = &v1alpha1.ReachedPoint{FetchSeconds: 8, ReplaySeconds: 4}
	if got := expected(plan, last); got != 100 {
		t.Errorf("got %d s, want 80 to fetch and 20 to replay", got)
	}
}

func TestTheDataOfBeforeIsPinnedBeforeTheJobStarts(t *testing.T) {
	w := inPlaceWorld(grant)
	r := &Reconciler{} // without a client: a write would panic
	got := flow.Run(context.Background(), w, r.awaitHold, r.pinBefore, r.runJob)
	want := v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17"}
	if got.Kind != flow.KindSave || w.restore.Status.Previous == nil || *w.restore.Status.Previous != want {
		t.Errorf("%+v, before %+v", got, w.restore.Status.Previous)
	}
}

func TestADecisionIsRecordedBeforeItIsActedOn(t *testing.T) {
	within := func(w *world, d time.Duration) { w.restore.Spec.ConfirmWithin = &metav1.Duration{Duration: d} }
	for name, test := range map[string]struct {
		change func(*world)
		want   v1alpha1.RestoreDecision
	}{
		"nobody decided":                       {func(*world) {}, ""},
		"confirmed":                            {func(w *world) { w.restore.Spec.Decision = v1alpha1.DecisionConfirm }, v1alpha1.DecisionConfirm},
		"undone":                               {func(w *world) { w.restore.Spec.Decision = v1alpha1.DecisionUndo }, v1alpha1.DecisionUndo},
		"nobody decided in time":               {func(w *world) { within(w, time.Second) }, v1alpha1.DecisionConfirm},
		"undo at the very end of the time":     {func(w *world) { within(w, time.Second); w.restore.Spec.Decision = v1alpha1.DecisionUndo }, v1alpha1.DecisionUndo},
		"there is more time":                   {func(w *world) { within(w, time.Hour) }, ""},
		"there is a day where nothing is said": {func(w *world) { w.now = w.now.Add(25 * time.Hour) }, v1alpha1.DecisionConfirm},
		"the Restore is deleted":               {func(w *world) { w.restore.DeletionTimestamp = &metav1.Time{Time: w.now} }, v1alpha1.DecisionConfirm},
		"the cluster is gone":                  {func(w *world) { w.cluster = nil }, v1alpha1.DecisionConfirm},
		"there is nothing to go back to": {func(w *world) {
			w.restore.Status.Plan.DiscardsPrevious, w.restore.Spec.Decision = true, v1alpha1.DecisionUndo
		}, v1alpha1.DecisionConfirm},
	} {
		t.Run(name, func(t *testing.T) {
			w := inPlaceWorld(func(w *world) { run(w); test.change(w) })
			got := (&Reconciler{}).decide(context.Background(), w)
			if w.decided() != test.want || test.want != "" && got.Kind != flow.KindSave {
				t.Errorf("decided %q, %+v", w.decided(), got)
			}
			if test.want == "" && (got.Kind != flow.KindWait || got.After <= 0 || w.restore.Status.ConfirmBy == nil) {
				t.Errorf("%+v until %v", got, w.restore.Status.ConfirmBy)
			}
		})
	}
}

func TestWhatCannotBeUndoneIsSaidWhileTheClusterServes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		kind   flow.Kind
		want   string
	}{
		"it can be":             {func(*world) {}, flow.KindSave, ""},
		"it runs on other data": {func(w *world) { w.cluster.Status.DataGeneration = "g5" }, flow.KindWait, "it runs on data generation g5"},
		"what it runs on may be undone": {func(w *world) {
			w.cluster.Status.DataGeneration, w.cluster.Status.ReleasedDataGenerations = "g5", []string{"g3"}
		}, flow.KindWait, "when what replaced it is undone"},
		"what replaced it was confirmed": {func(w *world) {
			w.cluster.Status.DataGeneration, w.cluster.Status.ReleasedDataGenerations = "g5", []string{"g3", "g1"}
		}, flow.KindStop, "can't come back, as what replaced it was confirmed; the data of before is on the volume of shop-1 still, and is removed with this Restore"},
		"it was upgraded since": {func(w *world) { w.cluster.Status.DataGeneration, w.cluster.Status.MajorVersion = "g5", 18 }, flow.KindStop, "is PostgreSQL 18 now, which can't go back to 17"},
		"an upgrade may be taken back": {func(w *world) {
			w.cluster.Status.DataGeneration, w.cluster.Status.MajorVersion = "g5", 18
			w.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{RequesterUID: "up", State: v1alpha1.VolumeLockAdopted}}
		}, flow.KindWait, "when what replaced it is undone"},
		"the cluster is gone":         {func(w *world) { w.cluster = nil }, flow.KindStop, "is gone, and its data of before with it"},
		"the instance was taken away": {func(w *world) { w.cluster.Status.Instances = w.cluster.Status.Instances[:1] }, flow.KindStop, "is on the volume of shop-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inPlaceWorld(func(w *world) { decide(w, v1alpha1.DecisionUndo); test.change(w) })
			got := (&Reconciler{}).askUndo(context.Background(), w)
			if got.Kind != test.kind || !strings.Contains(got.Message, test.want) || (w.restore.Status.VolumeLockRequest != nil) != (test.kind == flow.KindSave) {
				t.Errorf("%+v, hold %v", got, w.restore.Status.VolumeLockRequest)
			}
		})
	}
}

func TestWhatIsGivenUpIsNotHandedBack(t *testing.T) {
	w := inPlaceWorld(func(w *world) {
		discard(w)
		w.restore.Status.DownAt, w.restore.Status.Handover = &metav1.Time{Time: w.now}, &v1alpha1.Handover{DataGeneration: "g1"}
		w.restore.Status.Failure = &v1alpha1.RestoreFailure{Reason: "x", Message: "it failed"}
	})
	r := &Reconciler{} // without a client: a write would panic
	got := flow.Run(context.Background(), w, r.takeBack, r.awaitTakenBack, r.concludeInPlace)
	if got.Kind != flow.KindStop || w.restore.Status.Handover.DataGeneration != "g1" || !strings.Contains(got.Message, "restore Backup shop-safety in place") ||
		strings.Contains(got.Message, "goes on with its data of before") {
		t.Errorf("%+v, %+v", got, w.restore.Status.Handover)
	}
}

func TestTheHoldStaysUntilTheDBControllerSaysThatItTookTheDataOfBefore(t *testing.T) {
	w := inPlaceWorld(func(w *world) {
		grant(w)
		w.restore.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1"}
		w.restore.Status.Handover = &v1alpha1.Handover{Token: protocol.Token("uid", 0), DataGeneration: "g1"}
	})
	r := &Reconciler{}
	if got := r.takeBack(t.Context(), w); got.Kind != flow.KindSave || w.restore.Status.Handover.DataGeneration != "g0" {
		t.Fatalf("%+v, %+v", got, w.restore.Status.Handover)
	}
	if got := r.awaitTakenBack(t.Context(), w); got.Kind != flow.KindWait { // it may be about to take g1
		t.Errorf("it runs on g0 still: %+v", got)
	}
	w.cluster.Status.VolumeLocks[0].State, w.cluster.Status.VolumeLocks[0].AdoptedGeneration = v1alpha1.VolumeLockAdopted, "g0"
	if got := r.awaitTakenBack(t.Context(), w); !got.Finished() {
		t.Errorf("it says that it took g0: %+v", got)
	}
}

func TestDataIsLetGoOnlyWhenTheClusterRunsOnOther(t *testing.T) {
	w := inPlaceWorld(func(w *world) { decide(w, v1alpha1.DecisionConfirm) })
	if got := letGo(w, "g1"); !got.Finished() || w.restore.Status.Release != nil {
		t.Errorf("what it runs on: %+v, %v", got, w.restore.Status.Release)
	}
	if got := letGo(w, "g0"); got.Kind != flow.KindSave || w.restore.Status.Release.DataGeneration != "g0" {
		t.Errorf("%+v, %v", got, w.restore.Status.Release)
	}
	if got := letGo(w, "g0"); got.Kind != flow.KindWait {
		t.Errorf("before it is noted: %+v", got)
	}
	w.cluster.Status.ReleasedDataGenerations = []string{"g0"}
	if got := letGo(w, "g0"); !got.Finished() || w.restore.Status.Release != nil {
		t.Errorf("once it is noted: %+v, %v", got, w.restore.Status.Release)
	}
}

func TestWhatWasTakenFromTheDataOfBeforeIsSaid(t *testing.T) {
	restore := &v1alpha1.Restore{}
	restore.Spec.Destination.InPlace = &v1alpha1.InPlace{Name: "shop"}
	restore.Status.Plan = &v1alpha1.RestorePlan{Target: "the end", WriteBytes: 100 << 20}
	restore.Status.Reached = &v1alpha1.ReachedPoint{LSN: "0/1", TakenBytes: 90 << 20}
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	restore.Status.StartedAt, restore.Status.RestoredAt = &metav1.Time{Time: begun}, &metav1.Time{Time: begun.Add(time.Minute)}
	if got := summary(restore); !strings.HasSuffix(got, "it took 1m0s; 90 of 100 MiB were taken from the data of before") {
		t.Errorf("it says: %s", got)
	}
}
