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

// seenInPlace is of a Restore r of the cluster shop in place, which runs on g0.
func seenInPlace(change func(*observed)) *observed {
	return seen(func(o *observed) {
		o.restore.Spec.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
		o.cluster = &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "c"}}
		o.cluster.Status = v1alpha1.PostgresClusterStatus{
			SystemIdentifier: "7", MajorVersion: 17, DataGeneration: "g0", Image: "postgres:17", Primary: "shop-1",
			Instances: []v1alpha1.InstanceStatus{{Name: "shop-0"}, {Name: "shop-1"}},
		}
		change(o)
	})
}

func planInPlace(o *observed) {
	o.restore.Status.Cluster = &v1alpha1.CreatedCluster{Name: "shop", UID: "c"}
	o.restore.Status.Plan = &v1alpha1.RestorePlan{SystemIdentifier: "7", MajorVersion: 17, DataGeneration: "g1"}
}

// grant lets the db-controller have granted the volumes.
func grant(o *observed) {
	planInPlace(o)
	o.restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{ClusterUID: "c", Token: protocol.Token("uid", 0)}
	o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{
		RequesterUID: "uid", Token: protocol.Token("uid", 0), State: v1alpha1.VolumeLockGranted,
		Volumes: []v1alpha1.LockedVolume{{Instance: "shop-1", ClaimName: "data-shop-1"}, {Instance: "shop-0", ClaimName: "data-shop-0"}},
	}}
}

// handOver lets the restored data be offered to the cluster.
func handOver(o *observed) {
	grant(o)
	o.restore.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1"}
	o.restore.Status.Handover = &v1alpha1.Handover{Token: protocol.Token("uid", 0), DataGeneration: "g1"}
	o.restore.Status.HandedOverAt = &metav1.Time{Time: o.now}
}

// adopt lets the cluster accept connections on it, which nobody has noted yet.
func adopt(o *observed) {
	handOver(o)
	o.cluster.Status.VolumeLocks[0].State, o.cluster.Status.VolumeLocks[0].AdoptedGeneration = v1alpha1.VolumeLockAdopted, "g1"
	o.cluster.Status.VolumeLocks[0].ServedSince = &metav1.Time{Time: o.now}
	o.cluster.Status.DataGeneration = "g1"
	o.cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
}

// run lets the cluster run on the restored data.
func run(o *observed) {
	planInPlace(o)
	status := &o.restore.Status
	status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17", Archived: true}
	o.previousRestorable = true
	status.DownAt, status.RestoredAt = &metav1.Time{Time: time.Unix(995, 0)}, &metav1.Time{Time: time.Unix(998, 0)}
	o.cluster.Status.DataGeneration = "g1"
}

// discard lets the Job be giving up the previous data.
func discard(o *observed) {
	grant(o)
	o.restore.Status.Plan.DiscardsPrevious, o.restore.Status.SafetyBackup = true, "shop-safety"
	o.restore.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1"}
}

func decideOn(o *observed, decision v1alpha1.RestoreDecision) {
	run(o)
	o.restore.Status.Decided = &v1alpha1.DecidedRestore{Decision: decision}
}

func TestWhatIsSeenDecidesWhatIsDoneInPlace(t *testing.T) {
	const (
		plan   = "ensureFinalizer preflight preflightInPlace pinPlan"
		normal = plan + " requestSafetyBackup awaitSafetyBackup requestLock awaitLock pinPrevious runJob awaitJob handOver awaitRestored"
		back   = "stopJob takeBack awaitTakenBack withdrawLock awaitReturned releaseGivenUp"
		giveUp = "pinFailure " + back + " concludeInPlace"
	)
	deleted := metav1.NewTime(time.Unix(999, 0))
	backupFailed := func(o *observed) {
		planInPlace(o)
		o.restore.Status.BackupRequest = &v1alpha1.BackupRequest{Token: "t"}
		o.first = &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: "t"}}}
		o.first.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionFalse}}
	}
	for name, test := range map[string]struct {
		change func(*observed)
		want   string
	}{
		"a new one":                {func(*observed) {}, normal},
		"a plan is all":            {func(o *observed) { o.restore.Spec.Mode = v1alpha1.RestorePlanOnly }, plan},
		"there is no such cluster": {func(o *observed) { o.cluster = nil }, normal}, // preflight says so
		"the volumes are granted":  {grant, normal},
		"another database by then": {func(o *observed) { grant(o); o.cluster.Status.SystemIdentifier = "8" }, giveUp},
		"upgraded by then":         {func(o *observed) { grant(o); o.cluster.Status.MajorVersion = 18 }, giveUp},
		"the cluster is replaced":  {func(o *observed) { planInPlace(o); o.cluster.UID = "d" }, giveUp},
		"the cluster goes":         {func(o *observed) { planInPlace(o); o.cluster.DeletionTimestamp = &deleted }, giveUp},
		"cancelled":                {func(o *observed) { grant(o); o.restore.Spec.Cancel = true }, giveUp},
		"its Job failed":           {func(o *observed) { grant(o); o.job = workload.State{Exists: true, Failed: true} }, giveUp},
		"the safety backup failed": {backupFailed, giveUp},
		"it doesn't come up": {func(o *observed) {
			handOver(o)
			o.restore.Status.HandedOverAt = &metav1.Time{Time: o.now.Add(-startLimit - time.Second)}
		}, giveUp},
		"it runs on the restored data":            {adopt, "pinRestored"},
		"it runs on it, cancelled":                {func(o *observed) { adopt(o); o.restore.Spec.Cancel = true }, "pinRestored"},
		"it runs on it, deleted":                  {func(o *observed) { adopt(o); o.restore.DeletionTimestamp = &deleted }, "pinRestored"},
		"it runs on it, given up a moment before": {func(o *observed) { adopt(o); o.restore.Status.Failure = &v1alpha1.Failure{Reason: "x"} }, "pinRestored"},
		"it runs on the previous data again": {func(o *observed) {
			adopt(o)
			o.restore.Status.Failure = &v1alpha1.Failure{Reason: "x"}
			o.restore.Status.Handover.DataGeneration, o.cluster.Status.DataGeneration = "g0", "g0"
			o.cluster.Status.VolumeLocks[0].AdoptedGeneration = "g0"
		}, giveUp},
		"it is still coming up": {func(o *observed) {
			grant(o)
			o.restore.Status.HandedOverAt = &metav1.Time{Time: o.now.Add(-time.Minute)}
		}, normal},
		"deleted before": {func(o *observed) { grant(o); o.restore.DeletionTimestamp = &deleted }, back + " removeFinalizer"},
		"cancelled while it gives up what was before": {func(o *observed) { discard(o); o.restore.Spec.Cancel = true }, normal},
		"deleted then":        {func(o *observed) { discard(o); o.restore.DeletionTimestamp = &deleted }, normal},
		"its Job failed then": {func(o *observed) { discard(o); o.job = workload.State{Exists: true, Failed: true} }, giveUp},
		"its Job failed then, deleted": {func(o *observed) {
			discard(o)
			o.job = workload.State{Exists: true, Failed: true}
			o.restore.DeletionTimestamp = &deleted
		}, back + " removeFinalizer"},
		"it doesn't come up then": {func(o *observed) {
			discard(o)
			o.restore.Status.HandedOverAt = &metav1.Time{Time: o.now.Add(-startLimit - time.Second)}
		}, normal},
		"restored":              {run, "decide"},
		"cancelled too late":    {func(o *observed) { run(o); o.restore.Spec.Cancel = true }, "decide"},
		"deleted when restored": {func(o *observed) { run(o); o.restore.DeletionTimestamp = &deleted }, "decide"},
		"confirmed":             {func(o *observed) { decideOn(o, v1alpha1.DecisionConfirm) }, "awaitRestorable releasePrevious finishConfirmed"},
		"to be undone":          {func(o *observed) { decideOn(o, v1alpha1.DecisionUndo) }, "requestUndo awaitUndo handBack awaitBack"},
		"deleted while it is undone": {func(o *observed) {
			decideOn(o, v1alpha1.DecisionUndo)
			o.restore.DeletionTimestamp = &deleted
		}, "requestUndo awaitUndo handBack awaitBack"},
		"undone": {func(o *observed) {
			decideOn(o, v1alpha1.DecisionUndo)
			o.restore.Status.UndoneAt = &deleted
		}, "awaitReturned releaseRestored concludeUndone"},
		"deleted when it could not be undone": {func(o *observed) {
			decideOn(o, v1alpha1.DecisionUndo)
			o.restore.Status.CompletedAt, o.restore.DeletionTimestamp = &deleted, &deleted
		}, "releasePrevious removeFinalizer"},
		"deleted when it was undone": {func(o *observed) {
			decideOn(o, v1alpha1.DecisionUndo)
			o.restore.Status.UndoneAt, o.restore.Status.CompletedAt, o.restore.DeletionTimestamp = &deleted, &deleted, &deleted
		}, "removeFinalizer"},
		"deleted when it was confirmed": {func(o *observed) {
			decideOn(o, v1alpha1.DecisionConfirm)
			o.restore.Status.CompletedAt, o.restore.DeletionTimestamp = &deleted, &deleted
		}, "removeFinalizer"},
		"it could not be undone": {func(o *observed) {
			decideOn(o, v1alpha1.DecisionUndo)
			o.restore.Status.CompletedAt = &deleted
		}, "awaitFirstBackup"},
		"it could not be undone, and nothing is left": {func(o *observed) {
			decideOn(o, v1alpha1.DecisionUndo)
			o.restore.Status.CompletedAt, o.cluster.Status.ReleasedDataGenerations = &deleted, []string{"g0"}
		}, "awaitFirstBackup expire"},
		"ended": {func(o *observed) { run(o); o.restore.Status.CompletedAt = &deleted }, "awaitFirstBackup expire"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names((&Reconciler{}).plan(seenInPlace(test.change))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestOnlyAClusterWithDataIsRestoredInPlace(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*observed)
		kind   flow.Kind
		reason string
	}{
		"all is well":              {func(*observed) {}, flow.KindNext, ""},
		"no cluster":               {func(o *observed) { o.cluster, o.now = nil, o.now.Add(time.Minute) }, flow.KindStop, v1alpha1.ReasonClusterNotFound},
		"no cluster yet":           {func(o *observed) { o.cluster = nil }, flow.KindWait, v1alpha1.ReasonClusterNotFound},
		"a cluster that goes":      {func(o *observed) { o.cluster.DeletionTimestamp = &metav1.Time{Time: o.now} }, flow.KindStop, v1alpha1.ReasonClusterReplaced},
		"a cluster without data":   {func(o *observed) { o.cluster.Status.SystemIdentifier = "" }, flow.KindWait, v1alpha1.ReasonClusterNotReady},
		"a cluster that sleeps":    {func(o *observed) { o.cluster.Spec.Hibernate = true }, flow.KindWait, v1alpha1.ReasonClusterNotReady},
		"a cluster that is in use": {func(o *observed) { o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{RequesterUID: "other"}} }, flow.KindWait, v1alpha1.ReasonQueued},
	} {
		t.Run(name, func(t *testing.T) {
			got := preflightInPlace(context.Background(), seenInPlace(test.change))
			if got.Kind != test.kind || got.Reason != test.reason || got.Kind != flow.KindNext && got.Message == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestABackupThatCannotTakeThePlaceIsRefused(t *testing.T) {
	storage := func(o *observed, used string) {
		capacity, full := resource.MustParse("10Gi"), resource.MustParse(used)
		o.cluster.Status.Instances[1].Storage = &v1alpha1.InstanceStorage{Capacity: &capacity, Used: &full}
	}
	for name, test := range map[string]struct {
		change func(*observed, *backup.Header)
		want   string
	}{
		"it fits":          {func(*observed, *backup.Header) {}, ""},
		"there is room":    {func(o *observed, _ *backup.Header) { storage(o, "7Gi") }, ""},
		"there is no room": {func(o *observed, _ *backup.Header) { storage(o, "9Gi") }, "2112Mi is needed in addition, and the volume of shop-1 has 1Gi free. Raise spec.storage.size of PostgresCluster shop"},
		"there is no room, and what was before may go": {func(o *observed, _ *backup.Header) {
			storage(o, "9Gi")
			o.restore.Spec.Destination.InPlace.DiscardPrevious = true
		}, ""},
		"there is no room in all": {func(o *observed, h *backup.Header) {
			storage(o, "9Gi")
			o.restore.Spec.Destination.InPlace.DiscardPrevious, h.Totals.LogicalBytes = true, 10<<30
		}, "10304Mi is needed, and the volume of shop-1 has 10Gi in all. Raise spec.storage.size of PostgresCluster shop"},
		"another version":  {func(_ *observed, h *backup.Header) { h.PGMajor = 15 }, "is from PostgreSQL 15, and PostgresCluster shop runs 17"},
		"another database": {func(_ *observed, h *backup.Header) { h.SystemIdentifier = "8" }, "is from another database (system identifier 8) than that of PostgresCluster shop (7)"},
	} {
		t.Run(name, func(t *testing.T) {
			header := &backup.Header{ID: "b", PGMajor: 17, SystemIdentifier: "7", Totals: backup.Totals{LogicalBytes: 2 << 30}}
			o := seenInPlace(func(o *observed) { test.change(o, header) })
			got := fitsInPlace(o, header)
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

func TestThePreviousDataIsPinnedBeforeTheJobStarts(t *testing.T) {
	o := seenInPlace(grant)
	o.cluster.Status.VolumeLocks[0].Archived, o.cluster.Status.Archive = true, &v1alpha1.ArchiveStatus{Repository: "minio"}
	r := &Reconciler{} // without a client: a write would panic
	got := flow.Run(context.Background(), o, awaitLock, pinPrevious, r.runJob)
	want := v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17", Archived: true, Repository: "minio"}
	if got.Kind != flow.KindSave || o.restore.Status.Previous == nil || *o.restore.Status.Previous != want {
		t.Errorf("%+v, before %+v", got, o.restore.Status.Previous)
	}
}

func deleted(o *observed) { o.restore.DeletionTimestamp = &metav1.Time{Time: o.now} }

func TestADecisionIsRecordedBeforeItIsActedOn(t *testing.T) {
	within := func(o *observed, d time.Duration) { o.restore.Spec.ConfirmWithin = &metav1.Duration{Duration: d} }
	for name, test := range map[string]struct {
		change func(*observed)
		want   v1alpha1.RestoreDecision
	}{
		"nobody decided":                       {func(*observed) {}, ""},
		"confirmed":                            {func(o *observed) { o.restore.Spec.Decision = v1alpha1.DecisionConfirm }, v1alpha1.DecisionConfirm},
		"undone":                               {func(o *observed) { o.restore.Spec.Decision = v1alpha1.DecisionUndo }, v1alpha1.DecisionUndo},
		"nobody decided in time":               {func(o *observed) { within(o, time.Second) }, v1alpha1.DecisionConfirm},
		"undo at the very end of the time":     {func(o *observed) { within(o, time.Second); o.restore.Spec.Decision = v1alpha1.DecisionUndo }, v1alpha1.DecisionUndo},
		"there is more time":                   {func(o *observed) { within(o, time.Hour) }, ""},
		"there is a day where nothing is said": {func(o *observed) { o.now = o.now.Add(25 * time.Hour) }, v1alpha1.DecisionConfirm},
		"the Restore is deleted":               {deleted, v1alpha1.DecisionConfirm},
		"undone, and deleted at once":          {func(o *observed) { deleted(o); o.restore.Spec.Decision = v1alpha1.DecisionUndo }, v1alpha1.DecisionUndo},
		"the cluster is gone":                  {func(o *observed) { o.cluster = nil }, v1alpha1.DecisionConfirm},
		"there is nothing to go back to": {func(o *observed) {
			o.restore.Status.Plan.DiscardsPrevious, o.restore.Spec.Decision = true, v1alpha1.DecisionUndo
		}, v1alpha1.DecisionConfirm},
	} {
		t.Run(name, func(t *testing.T) {
			o := seenInPlace(func(o *observed) { run(o); test.change(o) })
			got := decide(context.Background(), o)
			if o.decided() != test.want || test.want != "" && got.Kind != flow.KindSave {
				t.Errorf("decided %q, %+v", o.decided(), got)
			}
			if test.want == "" && (got.Kind != flow.KindWait || got.After <= 0 || o.restore.Status.ConfirmBy == nil) {
				t.Errorf("%+v until %v", got, o.restore.Status.ConfirmBy)
			}
		})
	}
}

// A status may be of a bucket that has been emptied since, and has no room for every lineage.
func TestOnlyWhatARepositoryHasFoundSinceTheRestoreProvesThatPreviousDataIsThere(t *testing.T) {
	since := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		change func(*v1alpha1.BackupRepository)
		says   string
	}{
		"all is there":            {func(*v1alpha1.BackupRepository) {}, ""},
		"it was deleted":          {func(r *v1alpha1.BackupRepository) { r.Name = "other" }, "BackupRepository minio, to which its WAL was archived, no longer exists"},
		"its bucket was replaced": {func(r *v1alpha1.BackupRepository) { r.Status.Conditions[0].Status = metav1.ConditionFalse }, "is not Ready"},
		"it was read before":      {func(r *v1alpha1.BackupRepository) { r.Status.LastInventoryTime.Time = since.Add(-time.Second) }, "has not been read since the restore"},
		"it was never read":       {func(r *v1alpha1.BackupRepository) { r.Status.LastInventoryTime = nil }, "has not been read since the restore"},
		"it lists other lineages": {func(r *v1alpha1.BackupRepository) { r.Status.Lineages[0].Name = "7-g1" }, "does not list lineage 7-g0"},
		"its backups are gone":    {func(r *v1alpha1.BackupRepository) { r.Status.Lineages[0].Backups = 0 }, "has no backup in lineage 7-g0"},
		"a manifest is damaged":   {func(r *v1alpha1.BackupRepository) { r.Status.Lineages[0].Damaged = []string{"b"} }, "is damaged"},
		"it can't be read":        {func(r *v1alpha1.BackupRepository) { r.Status.Lineages[0].Unreadable = "x" }, "is damaged"},
		"a segment is missing":    {func(r *v1alpha1.BackupRepository) { r.Status.Lineages[0].MissingWAL = "000000010000000000000005" }, "lacks 000000010000000000000005 of the WAL"},
	} {
		repository := v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio"}}
		repository.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		repository.Status.LastInventoryTime = &metav1.Time{Time: since.Add(time.Second)}
		repository.Status.Lineages = []v1alpha1.LineageStatus{{Name: "7-g0", Backups: 1}}
		c.change(&repository)
		got := archiveDoubt("minio", "7-g0", since, []v1alpha1.BackupRepository{repository})
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A stopping primary may leave its last WAL on its volume. The restored data has none of it, so once the previous data is deleted, it is nowhere.
func TestTheOnlyCopyOfCommitsIsNotGivenUpForLackOfADecision(t *testing.T) {
	unarchived := func(o *observed) { o.restore.Status.Previous.Archived = false }
	late := func(o *observed) { o.now = o.now.Add(25 * time.Hour) }
	for name, test := range map[string]struct {
		change func(*observed)
		want   v1alpha1.RestoreDecision
		says   string
	}{
		"all is archived": {late, v1alpha1.DecisionConfirm, ""},
		"its last WAL may not be archived": {func(o *observed) { late(o); unarchived(o) }, "",
			"shop-1, the last primary, did not report at its shutdown that all WAL of the previous data is archived. Set spec.decision to Confirm"},
		"there is no backup to replay its WAL on": {func(o *observed) { late(o); o.previousRestorable = false }, "", "there is no intact Backup of the previous data. Set spec.decision to Confirm"},
		"its archive has a hole": {func(o *observed) { late(o); o.previousDoubt = "BackupRepository minio lacks a segment" }, "",
			"the only copy of its last commits: BackupRepository minio lacks a segment. Set spec.decision"},
		"a person gives it up":   {func(o *observed) { late(o); unarchived(o); o.restore.Spec.Decision = v1alpha1.DecisionConfirm }, v1alpha1.DecisionConfirm, ""},
		"a person wants it back": {func(o *observed) { late(o); unarchived(o); o.restore.Spec.Decision = v1alpha1.DecisionUndo }, v1alpha1.DecisionUndo, ""},
		"the Restore is deleted": {func(o *observed) { unarchived(o); deleted(o) }, "",
			"The Restore is being deleted, and the previous data (data generation g0, on the volume of shop-1) is kept, because it may be the only copy of its last commits: shop-1, the last primary"},
		"the Restore is deleted, and a person gives it up": {func(o *observed) { unarchived(o); deleted(o); o.restore.Spec.Decision = v1alpha1.DecisionConfirm }, v1alpha1.DecisionConfirm, ""},
		"the Restore is deleted with the cluster":          {func(o *observed) { unarchived(o); deleted(o); o.cluster = nil }, v1alpha1.DecisionConfirm, ""},
		"the cluster is gone":                              {func(o *observed) { late(o); unarchived(o); o.cluster = nil }, v1alpha1.DecisionConfirm, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := seenInPlace(func(o *observed) { run(o); test.change(o) })
			got := decide(context.Background(), o)
			if o.decided() != test.want || test.want == "" && (got.Reason != v1alpha1.ReasonAwaitingDecision || !strings.Contains(got.Message, test.says)) {
				t.Errorf("decided %q: %+v", o.decided(), got)
			}
		})
	}
	o := seenInPlace(func(o *observed) { run(o); unarchived(o) })
	if got := decide(context.Background(), o); got.Reason != v1alpha1.ReasonAwaitingConfirmation || !strings.Contains(got.Message, "Without a decision the previous data is kept, because shop-1") {
		t.Errorf("before the time is over: %+v", got)
	}
}

func TestWhatCannotBeUndoneIsSaidWhileTheClusterServes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*observed)
		kind   flow.Kind
		want   string
	}{
		"it can be": {func(*observed) {}, flow.KindSave, ""},
		"nothing leads back from what it runs on": {func(o *observed) {
			o.cluster.Status.DataGeneration = "g5"
			o.cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		}, flow.KindStop, "can't be restored, because no Restore or Upgrade can undo data generation g5. The previous data is still on the volume of shop-1"},
		"a person may still choose what it runs on": {func(o *observed) {
			o.cluster.Status.DataGeneration = "g5"
			o.cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
		}, flow.KindWait, "it runs on data generation g5. Waiting until it accepts connections."},
		"what it runs on may be undone": {func(o *observed) {
			o.cluster.Status.DataGeneration, o.cluster.Status.ReleasedDataGenerations = "g5", []string{"g3"}
			o.writers = []protocol.Writer{{Kind: "Restore", Name: "later", Wrote: "g5", Previous: "g1", Undoable: true}}
		}, flow.KindWait, "To undo this as well, first set spec.decision: Undo of Restore later."},
		"what replaced it was confirmed": {func(o *observed) {
			o.cluster.Status.DataGeneration, o.cluster.Status.ReleasedDataGenerations = "g5", []string{"g3", "g1"}
		}, flow.KindStop, "can't be restored, because what replaced it was confirmed. The previous data is still on the volume of shop-1, and is removed with this Restore."},
		"the cluster is gone": {func(o *observed) { o.cluster = nil }, flow.KindStop, "was deleted, and its previous data with it"},
		"the instance was taken away": {func(o *observed) {
			o.cluster.Spec.Instances, o.cluster.Status.Instances = 1, o.cluster.Status.Instances[:1]
		}, flow.KindWait, "Set spec.instances of PostgresCluster shop to 2 to bring it back."},
	} {
		t.Run(name, func(t *testing.T) {
			o := seenInPlace(func(o *observed) { decideOn(o, v1alpha1.DecisionUndo); test.change(o) })
			got := (&Reconciler{}).requestUndo(context.Background(), o)
			if got.Kind != test.kind || !strings.Contains(got.Message, test.want) || (o.restore.Status.VolumeLockRequest != nil) != (test.kind == flow.KindSave) {
				t.Errorf("%+v, hold %v", got, o.restore.Status.VolumeLockRequest)
			}
		})
	}
}

func TestWhatIsGivenUpIsNotHandedBack(t *testing.T) {
	o := seenInPlace(func(o *observed) {
		discard(o)
		o.restore.Status.DownAt, o.restore.Status.Handover = &metav1.Time{Time: o.now}, &v1alpha1.Handover{DataGeneration: "g1"}
		o.restore.Status.Failure = &v1alpha1.Failure{Reason: "x", Message: "it failed"}
	})
	got := flow.Run(context.Background(), o, takeBack, awaitTakenBack, concludeInPlace)
	if got.Kind != flow.KindStop || o.restore.Status.Handover.DataGeneration != "g1" || !strings.Contains(got.Message, "restore Backup shop-safety in place") ||
		strings.Contains(got.Message, "continues with its previous data") {
		t.Errorf("%+v, %+v", got, o.restore.Status.Handover)
	}
}

func TestTheHoldStaysUntilTheDBControllerSaysThatItTookThePreviousData(t *testing.T) {
	o := seenInPlace(func(o *observed) {
		grant(o)
		o.restore.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", Instance: "shop-1"}
		o.restore.Status.Handover = &v1alpha1.Handover{Token: protocol.Token("uid", 0), DataGeneration: "g1"}
	})
	if got := takeBack(t.Context(), o); got.Kind != flow.KindSave || o.restore.Status.Handover.DataGeneration != "g0" {
		t.Fatalf("%+v, %+v", got, o.restore.Status.Handover)
	}
	if got := awaitTakenBack(t.Context(), o); got.Kind != flow.KindWait { // it may be about to take g1
		t.Errorf("it runs on g0 still: %+v", got)
	}
	o.cluster.Status.VolumeLocks[0].State, o.cluster.Status.VolumeLocks[0].AdoptedGeneration = v1alpha1.VolumeLockAdopted, "g0"
	if got := awaitTakenBack(t.Context(), o); !got.Finished() {
		t.Errorf("it says that it took g0: %+v", got)
	}
}

func TestDataIsLetGoOnlyWhenTheClusterRunsOnOther(t *testing.T) {
	o := seenInPlace(func(o *observed) { decideOn(o, v1alpha1.DecisionConfirm) })
	if got := o.lock().Release("g1"); !got.Finished() || o.restore.Status.Release != nil {
		t.Errorf("what it runs on: %+v, %v", got, o.restore.Status.Release)
	}
	if got := o.lock().Release("g0"); got.Kind != flow.KindSave || o.restore.Status.Release.DataGeneration != "g0" {
		t.Errorf("%+v, %v", got, o.restore.Status.Release)
	}
	if got := o.lock().Release("g0"); got.Kind != flow.KindWait {
		t.Errorf("before it is noted: %+v", got)
	}
	o.cluster.Status.ReleasedDataGenerations = []string{"g0"}
	if got := o.lock().Release("g0"); !got.Finished() || o.restore.Status.Release != nil {
		t.Errorf("once it is noted: %+v, %v", got, o.restore.Status.Release)
	}
}

func TestWhatWasTakenFromThePreviousDataIsSaid(t *testing.T) {
	restore := &v1alpha1.Restore{}
	restore.Spec.Destination.InPlace = &v1alpha1.InPlace{Name: "shop"}
	restore.Status.Plan = &v1alpha1.RestorePlan{Target: "the end", WriteBytes: 100 << 20}
	restore.Status.Reached = &v1alpha1.ReachedPoint{LSN: "0/1", TakenBytes: 90 << 20}
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	restore.Status.StartedAt, restore.Status.RestoredAt = &metav1.Time{Time: begun}, &metav1.Time{Time: begun.Add(time.Minute)}
	if got := summary(restore); !strings.HasSuffix(got, "The restore took 1m0s. 90 of 100 MiB were taken from the previous data.") {
		t.Errorf("it says: %s", got)
	}
}
