package restore

import (
	"context"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

func names(steps []step) string {
	var found []string
	for _, s := range steps {
		name := runtime.FuncForPC(reflect.ValueOf(s).Pointer()).Name()
		found = append(found, strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm"))
	}
	return strings.Join(found, " ")
}

// seen is of a Restore r into the cluster copy.
func seen(change func(*observed)) *observed {
	o := &observed{restore: restoreInto(v1alpha1.NewCluster{Name: "copy"}), now: time.Unix(1000, 0)}
	o.restore.CreationTimestamp = metav1.NewTime(time.Unix(990, 0))
	change(o)
	return o
}

// made is the cluster that the Restore has made.
func made() *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "copy", UID: "c", Annotations: map[string]string{v1alpha1.AnnotationRestoredBy: "uid"}},
		Spec:       v1alpha1.PostgresClusterSpec{Bootstrap: &v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{Name: "r"}}},
	}
}

func TestWhatIsSeenDecidesWhatIsDone(t *testing.T) {
	const (
		normal = "ensureFinalizer preflight pinPlan awaitNamesFree ensureCluster ensureLogins requestLock awaitLock runJob awaitJob handOver awaitRunning finish"
		giveUp = "pinFailure stopJob withdrawLock awaitReturned deleteUnfinished awaitClusterDeleted conclude"
		remove = "stopJob withdrawLock awaitReturned deleteUnfinished awaitClusterDeleted removeFinalizer"
	)
	recordMade := func(o *observed) { o.restore.Status.Cluster = &v1alpha1.CreatedCluster{Name: "copy", UID: "c"} }
	deleted, ended := metav1.NewTime(time.Unix(999, 0)), &metav1.Time{Time: time.Unix(999, 0)}
	for name, test := range map[string]struct {
		change func(*observed)
		want   string
	}{
		"a new one":                           {func(*observed) {}, normal},
		"its cluster is made, not recorded":   {func(o *observed) { o.cluster = made() }, normal},
		"its cluster is made":                 {func(o *observed) { o.cluster = made(); recordMade(o) }, normal},
		"somebody else's cluster":             {func(o *observed) { o.cluster = made(); o.cluster.Annotations = nil }, giveUp},
		"a cluster of a Restore of this name": {func(o *observed) { o.cluster = made(); o.cluster.Annotations[v1alpha1.AnnotationRestoredBy] = "before" }, giveUp},
		"its cluster is gone":                 {recordMade, giveUp},
		"its cluster is another one":          {func(o *observed) { o.cluster = made(); recordMade(o); o.cluster.UID = "d" }, giveUp},
		"its cluster is being deleted":        {func(o *observed) { o.cluster = made(); recordMade(o); o.cluster.DeletionTimestamp = &deleted }, giveUp},
		"cancelled":                           {func(o *observed) { o.restore.Spec.Cancel = true }, giveUp},
		"its Job failed":                      {func(o *observed) { o.job = workload.State{Exists: true, Failed: true} }, giveUp},
		"its Job failed, a pod is left":       {func(o *observed) { o.job = workload.State{Exists: true, Failed: true, LivePods: 1} }, normal},
		"its Job failed after the handover": {func(o *observed) {
			o.job = workload.State{Exists: true, Failed: true}
			o.restore.Status.Handover = &v1alpha1.Handover{}
		}, normal},
		"a Job of somebody else":             {func(o *observed) { o.job = workload.State{Foreign: true} }, giveUp},
		"a Secret of its name is somebody's": {func(o *observed) { o.logins = map[string]*corev1.Secret{"copy-app": {}} }, giveUp},
		"a Secret is its cluster's": {func(o *observed) {
			o.cluster = made()
			recordMade(o)
			o.logins = map[string]*corev1.Secret{"copy-app": {ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{protocol.LoginOwner(o.cluster, true)}}}}
		}, normal},
		"a Secret is of a cluster of the name that is gone": {func(o *observed) {
			o.logins = map[string]*corev1.Secret{"copy-app": {ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{protocol.LoginOwner(made(), true)}}}}
		}, normal},
		"a Secret of a declared role is somebody's": {func(o *observed) { o.logins = map[string]*corev1.Secret{"reporting": {}} }, normal},
		"its hold is refused": {func(o *observed) {
			o.cluster = made()
			o.restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{ClusterUID: "c", Token: "t"}
			o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{RequesterUID: "uid", Token: "t", State: v1alpha1.VolumeLockRefused}}
		}, giveUp},
		"given up, and what told so is gone": {func(o *observed) { o.restore.Status.Failure = &v1alpha1.Failure{Reason: "x"} }, giveUp},
		"deleted":                            {func(o *observed) { o.restore.DeletionTimestamp = &deleted }, remove},
		"deleted after its end": {func(o *observed) {
			o.restore.DeletionTimestamp = &deleted
			o.restore.Status.CompletedAt = ended
		}, "removeFinalizer"},
		"at its end":                      {func(o *observed) { o.restore.Status.CompletedAt = ended }, "awaitFirstBackup expire"},
		"at its end, the cluster deleted": {func(o *observed) { recordMade(o); o.restore.Status.CompletedAt = ended }, "awaitFirstBackup expire"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names((&Reconciler{}).plan(seen(test.change))); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestPreflightSaysWhatIsWrong(t *testing.T) {
	fromBackup := func(o *observed) { o.restore.Spec.Source.Backup = &v1alpha1.LocalReference{Name: "base"} }
	fromCluster := func(o *observed) { o.restore.Spec.Source.Cluster = &v1alpha1.ClusterSource{Name: "shop"} }
	backup := func(status metav1.ConditionStatus) *v1alpha1.Backup {
		return &v1alpha1.Backup{
			ObjectMeta: metav1.ObjectMeta{Name: "base"},
			Status: v1alpha1.BackupStatus{
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: "x"}},
				Plan:       &v1alpha1.BackupPlan{Repository: "repo"},
			},
		}
	}
	repo := func(status metav1.ConditionStatus) *v1alpha1.BackupRepository {
		return &v1alpha1.BackupRepository{Status: v1alpha1.BackupRepositoryStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}},
		}}
	}
	for name, test := range map[string]struct {
		change func(*observed)
		kind   flow.Kind
		reason string
	}{
		"all is well":                     {func(o *observed) { fromBackup(o); o.backup, o.repository = backup("True"), repo("True") }, flow.KindNext, ""},
		"a Backup just not yet":           {fromBackup, flow.KindWait, v1alpha1.ReasonBackupNotFound},
		"no Backup":                       {func(o *observed) { fromBackup(o); o.now = o.now.Add(time.Minute) }, flow.KindStop, v1alpha1.ReasonBackupNotFound},
		"a Backup that runs":              {func(o *observed) { fromBackup(o); o.backup = backup("Unknown") }, flow.KindWait, v1alpha1.ReasonAwaitingBackup},
		"a Backup that failed":            {func(o *observed) { fromBackup(o); o.backup = backup("False") }, flow.KindStop, v1alpha1.ReasonBackupNotFound},
		"a repository is away":            {func(o *observed) { fromBackup(o); o.backup, o.repository = backup("True"), repo("False") }, flow.KindWait, v1alpha1.ReasonRepositoryNotReady},
		"no repository":                   {func(o *observed) { fromBackup(o); o.backup = backup("True"); o.now = o.now.Add(time.Minute) }, flow.KindStop, v1alpha1.ReasonRepositoryNotFound},
		"no cluster":                      {func(o *observed) { fromCluster(o); o.now = o.now.Add(time.Minute) }, flow.KindStop, v1alpha1.ReasonClusterNotFound},
		"a cluster that archives nothing": {func(o *observed) { fromCluster(o); o.source = &v1alpha1.PostgresCluster{} }, flow.KindStop, v1alpha1.ReasonNoArchive},
		"a cluster that is gone, with its repository": {func(o *observed) {
			fromCluster(o)
			o.restore.Spec.Source.Cluster.Repository = &v1alpha1.LocalReference{Name: "repo"}
			o.repository = repo("True")
		}, flow.KindNext, ""},
		"an archive of its own": {func(o *observed) {
			fromBackup(o)
			o.restore.Spec.Destination.NewCluster.Repository = &v1alpha1.LocalReference{Name: "own"}
			o.backup, o.repository, o.archive = backup("True"), repo("True"), repo("True")
		}, flow.KindNext, ""},
		"an archive that isn't there": {func(o *observed) {
			fromBackup(o)
			o.restore.Spec.Destination.NewCluster.Repository = &v1alpha1.LocalReference{Name: "own"}
			o.backup, o.repository, o.now = backup("True"), repo("True"), o.now.Add(time.Minute)
		}, flow.KindStop, v1alpha1.ReasonRepositoryNotFound},
		"an archive that is read-only": {func(o *observed) {
			fromBackup(o)
			o.restore.Spec.Destination.NewCluster.Repository = &v1alpha1.LocalReference{Name: "own"}
			o.backup, o.repository, o.archive = backup("True"), repo("True"), repo("True")
			o.archive.Spec.ReadOnly = true
		}, flow.KindStop, v1alpha1.ReasonReadOnly},
		"a place in a repository": {func(o *observed) {
			o.restore.Spec.Source.Repository = &v1alpha1.RepositorySource{Name: "repo", Path: "lineages/7-g0"}
			o.repository = repo("True")
		}, flow.KindNext, ""},
		"a place in no repository": {func(o *observed) {
			o.restore.Spec.Source.Repository = &v1alpha1.RepositorySource{Name: "repo"}
			o.now = o.now.Add(time.Minute)
		}, flow.KindStop, v1alpha1.ReasonRepositoryNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			got := preflight(context.Background(), seen(test.change))
			if got.Kind != test.kind || got.Reason != test.reason || got.Kind != flow.KindNext && got.Message == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTheVolumeIsGivenBackOnlyWhenNobodyWritesToIt(t *testing.T) {
	o := seen(func(o *observed) {
		o.job = workload.State{Exists: true, Deleting: true, LivePods: 1}
		o.restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{}
	})
	r := &Reconciler{}
	outcome := flow.Run(context.Background(), o, r.stopJob, withdrawLock)
	if outcome.Kind != flow.KindWait || o.restore.Status.VolumeLockRequest == nil {
		t.Errorf("%+v, hold %v", outcome, o.restore.Status.VolumeLockRequest)
	}
}

func TestAClusterThatTookTheDataOverIsNotDeleted(t *testing.T) {
	o := seen(func(o *observed) {
		o.cluster = made()
		o.restore.Status.Plan = &v1alpha1.RestorePlan{DataGeneration: "g1"}
		o.restore.Status.Failure = &v1alpha1.Failure{Reason: v1alpha1.ReasonCancelled, Message: "cancelled"}
		o.cluster.Status.DataGeneration = "g1"
	})
	r := &Reconciler{} // without a client: a write would panic
	outcome := flow.Run(context.Background(), o, r.deleteUnfinished, awaitClusterDeleted, conclude)
	if outcome.Kind != flow.KindStop || !strings.Contains(outcome.Message, "and stays") {
		t.Errorf("%+v", outcome)
	}
}

func TestTheJobIsAsThePlanSays(t *testing.T) {
	o := seen(func(o *observed) {
		o.cluster, o.repository = made(), &v1alpha1.BackupRepository{}
		o.restore.Status.Plan = &v1alpha1.RestorePlan{
			Lineage: "7-g0", BackupID: "b", Timeline: 3, LastWAL: "000000030000000000000009", MajorVersion: 17, Image: "postgres:17",
			DataGeneration: "g1", StopAt: &v1alpha1.RestoreTarget{Time: "2026-03-01T12:03:10.25+01:00"},
		}
		o.restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{ClusterUID: "c", Token: protocol.Token("uid", 0)}
		o.cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{
			RequesterUID: "uid", Token: protocol.Token("uid", 0), State: v1alpha1.VolumeLockGranted,
			Volumes: []v1alpha1.LockedVolume{{Instance: "copy-0", ClaimName: "data-copy-0"}},
		}}
	})
	job := (&Reconciler{Dependencies: manager.Dependencies{Agent: workload.Agent{Image: "agent:1"}}}).job(o)
	spec := job.Spec.(agentapi.RestoreJob)
	want := time.Date(2026, 3, 1, 11, 3, 10, 250e6, time.UTC)
	if job.Name != "r-restore" || job.DataClaim != "data-copy-0" || job.Image != "postgres:17" || job.Cluster != "copy" ||
		spec.Target.Time == nil || !spec.Target.Time.Equal(want) || spec.Timeline != 3 || spec.LastWAL != "000000030000000000000009" || spec.DataGeneration != "g1" || !spec.DisableSubscriptions {
		t.Errorf("%+v\n%+v", job, spec)
	}
	if job.ClusterSpec != &o.cluster.Spec {
		t.Error("it doesn't run where the cluster does")
	}
	o.restore.Spec.Destination.NewCluster.Subscriptions = v1alpha1.SubscriptionsEnabled
	if spec := (&Reconciler{}).job(o).Spec.(agentapi.RestoreJob); spec.DisableSubscriptions {
		t.Error("subscriptions that shall continue are disabled")
	}
	slots := []v1alpha1.ReplicationSlot{{Name: "cdc"}, {Name: "old", Ensure: v1alpha1.Absent}}
	o.source = &v1alpha1.PostgresCluster{Spec: v1alpha1.PostgresClusterSpec{ReplicationSlots: slots}}
	if spec := (&Reconciler{}).job(o).Spec.(agentapi.RestoreJob); !slices.Equal(spec.LostSlots, []string{"cdc"}) {
		t.Errorf("of the slots %v are lost in a copy", spec.LostSlots)
	}
	o.restore.Spec.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
	o.source, o.cluster.Spec.ReplicationSlots = nil, slots
	if spec := (&Reconciler{}).job(o).Spec.(agentapi.RestoreJob); !spec.DisableSubscriptions || !slices.Equal(spec.LostSlots, []string{"cdc"}) {
		t.Errorf("in place, subscriptions that are behind their slots are disabled: %t, and of the slots %v are lost", spec.DisableSubscriptions, spec.LostSlots)
	}
}

// TestNobodyIsToldToEnableASubscriptionThatIsBehindItsSlot: PostgreSQL would skip silently what the slot has passed.
func TestNobodyIsToldToEnableASubscriptionThatIsBehindItsSlot(t *testing.T) {
	restore := &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{Destination: v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}}}
	if got := unsubscribed(restore); got != "" {
		t.Error(got)
	}
	restore.Status.DisabledSubscriptions = []string{"app.orders", "app.news"}
	if got := unsubscribed(restore); !strings.Contains(got, "app.orders, app.news are disabled, because their slots at the publishers have passed the restored data") || strings.Contains(got, "ENABLE") {
		t.Error(got)
	}
	restore.Spec.Destination = v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "copy"}}
	if got := unsubscribed(restore); !strings.Contains(got, "belong to the cluster that was backed up") || !strings.Contains(got, "ENABLE would silently skip what their slots have passed") {
		t.Error(got)
	}
}
