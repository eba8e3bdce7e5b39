package status

import (
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func print(t *testing.T, cluster *v1alpha1.PostgresCluster, poolers ...v1alpha1.Pooler) string {
	t.Helper()
	var out strings.Builder
	if err := Print(&out, cluster, poolers, now); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAReplicatedClusterIsShownWithEachInstance(t *testing.T) {
	archived := ago(12 * time.Second)
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hour", Name: "shop", Generation: 3},
		Spec:       v1alpha1.PostgresClusterSpec{Instances: 3},
		Status: v1alpha1.PostgresClusterStatus{
			Version: "17.5", Image: "postgres:17", Primary: "shop-1", Timeline: 4, ReadyInstances: 2,
			Synchronous: &v1alpha1.SynchronousStatus{Quorum: 1, Members: []string{"shop-0", "shop-2"}},
			Archive:     &v1alpha1.ArchiveStatus{Repository: "minio", LastArchivedWAL: "0000000400000000000000A1", LastArchivedTime: &archived},
			Conditions: []metav1.Condition{
				{Type: "Ready", Status: "True", Reason: "Running", Message: "It accepts connections.", LastTransitionTime: ago(3 * time.Hour), ObservedGeneration: 3},
				{Type: "Replicated", Status: "False", Reason: "Cloning", Message: "shop-2 is being cloned.", LastTransitionTime: ago(90 * time.Second), ObservedGeneration: 2},
			},
			Instances: []v1alpha1.InstanceStatus{
				{Name: "shop-0", Role: v1alpha1.RoleReplica, Node: "w2", Timeline: 4, Ready: true, Streaming: true, Eligible: true, PendingRestart: []string{"shared_buffers"}},
				{Name: "shop-1", Role: v1alpha1.RolePrimary, Node: "w1", Timeline: 4, Ready: true},
				{Name: "shop-2", Role: v1alpha1.RoleReplica, Node: "w3", Rejoin: &v1alpha1.RejoinStatus{Method: "Clone", Source: "shop-1", Percent: 40}},
			},
		},
	}
	want := `
Cluster      hour/shop
PostgreSQL   17.5, image postgres:17
Instances    2 of 3 ready
Primary      shop-1, timeline 4
Synchronous  each commit is on 1 of shop-0, shop-2
Archive      minio, last WAL 0000000400000000000000A1 12s ago

CONDITION   STATUS  REASON   FOR  MESSAGE
Ready       True    Running  3h   It accepts connections.
Replicated  False   Cloning  90s  shop-2 is being cloned. (about an older spec)

INSTANCE  ROLE     READY  NODE  TIMELINE  LAG            MAY TAKE OVER  REMARK
shop-0    replica  yes    w2    4         none           yes            a restart is pending for shared_buffers
shop-1    primary  yes    w1    4         -              -              -
shop-2    replica  no     w3    0         not streaming  no             Clone from shop-1: 40%
`
	got := regexp.MustCompile(`(?m) +$`).ReplaceAllString(print(t, cluster), "")
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestFindingsAreShownWithWhatToDo(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{Status: v1alpha1.PostgresClusterStatus{Findings: []v1alpha1.ClusterFinding{
		{Reason: "TemporaryFiles", Since: ago(4 * time.Hour), Evidence: "9 files.", Advice: "Set spec.postgresql.parameters.work_mem."},
	}}}
	if got := print(t, cluster); !strings.Contains(got, "FINDING") || !strings.Contains(got, "TemporaryFiles  4h   9 files. Set spec.postgresql.parameters.work_mem.") {
		t.Errorf("got\n%s", got)
	}
	if got := print(t, &v1alpha1.PostgresCluster{}); strings.Contains(got, "FINDING") {
		t.Errorf("got\n%s", got)
	}
}

func TestThePoolersOfTheClusterAreShown(t *testing.T) {
	pooler := func(name, cluster string, access v1alpha1.PoolAccess) v1alpha1.Pooler {
		return v1alpha1.Pooler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "hour", Name: name},
			Spec: v1alpha1.PoolerSpec{
				Cluster: v1alpha1.LocalReference{Name: cluster}, Access: access, Mode: v1alpha1.PoolTransaction, Instances: 2,
			},
		}
	}
	web := pooler("web", "shop", v1alpha1.PoolReadWrite)
	web.Status.ReadyInstances = 1
	web.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Degraded", Message: "1 of 2 instances accept clients.", LastTransitionTime: ago(time.Minute)}}
	out := print(t, &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hour", Name: "shop"}},
		web, pooler("readers", "shop", v1alpha1.PoolReadOnly), pooler("others", "orders", v1alpha1.PoolReadWrite))
	want := `
POOLER   ACCESS     MODE         READY   REASON    FOR  MESSAGE
web      ReadWrite  Transaction  1 of 2  Degraded  60s  1 of 2 instances accept clients.
readers  ReadOnly   Transaction  0 of 2  -         -    No controller has looked at it yet.
`
	if !strings.HasSuffix(out, want) {
		t.Errorf("got\n%s", out)
	}
}

func TestAClusterOfWhichNothingIsKnownIsShown(t *testing.T) {
	out := print(t, &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hour", Name: "new"}, Spec: v1alpha1.PostgresClusterSpec{Instances: 1}})
	if !strings.Contains(out, "0 of 1 ready") || !strings.Contains(out, "INSTANCE") {
		t.Errorf("got\n%s", out)
	}
}

func TestWhatGoesWrongIsShown(t *testing.T) {
	failing := ago(5 * time.Minute)
	out := print(t, &v1alpha1.PostgresCluster{Status: v1alpha1.PostgresClusterStatus{
		Archive:    &v1alpha1.ArchiveStatus{Repository: "minio", FailingSince: &failing, Waiting: 7},
		Switchover: &v1alpha1.SwitchoverStatus{State: v1alpha1.SwitchoverRunning, To: "shop-2", Message: "shop-2 catches up."},
		Instances:  []v1alpha1.InstanceStatus{{Name: "shop-1", Role: v1alpha1.RoleReplica, Streaming: true, LagBytes: 32 << 20, LagSeconds: 90, Message: "It replays slowly."}},
	}})
	for _, part := range []string{"failing for 5m with 7 segments waiting", "to shop-2: shop-2 catches up.", "32 MiB, 90s", "It replays slowly."} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in\n%s", part, out)
		}
	}
}

func TestADelayedReplicaIsShownAsSuch(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{Status: v1alpha1.PostgresClusterStatus{Instances: []v1alpha1.InstanceStatus{
		{Name: "shop-1", Role: v1alpha1.RoleReplica, Ready: true, DelaySeconds: 4 * 3600},
		{Name: "shop-2", Role: v1alpha1.RoleReplica, Ready: true, DelaySeconds: 4 * 3600, ReplayPaused: true},
	}}}
	text := regexp.MustCompile(` +`).ReplaceAllString(print(t, cluster), " ")
	for _, want := range []string{"shop-1 replica yes - 0 delayed by 4h no -", "shop-2 replica yes - 0 replay paused no -"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
}

func TestAnImportIsShownUntilItIsComplete(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{Status: v1alpha1.PostgresClusterStatus{Import: &v1alpha1.ImportStatus{
		Progress: &v1alpha1.Progress{Phase: "Copying", DoneBytes: 1 << 20, TotalBytes: 4 << 20, Percent: 25, SecondsLeft: 90, Message: "Database shop: table 2 of 9."},
	}}}
	if got := print(t, cluster); !strings.Contains(got, "Copying, 1 of 4 MiB (25%), 90s left. Database shop: table 2 of 9.\n") {
		t.Errorf("got\n%s", got)
	}
	at := ago(time.Minute)
	cluster.Status.Import.CompletedAt = &at
	if got := print(t, cluster); strings.Contains(got, "Import") {
		t.Errorf("got\n%s", got)
	}
}
