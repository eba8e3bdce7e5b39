package restore

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
)

func TestTheMetricsSayHowEachRestoreGoes(t *testing.T) {
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(1_000+seconds, 0)} }
	restore := func(name string, status metav1.ConditionStatus, reason string) *v1alpha1.Restore {
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		r.Spec.Destination.InPlace = &v1alpha1.InPlace{Name: "shop"}
		r.Status.StartedAt = at(0)
		r.Status.Plan = &v1alpha1.RestorePlan{WriteBytes: 100}
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: reason}}
		return r
	}
	done := restore("done", metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	done.Status.DownAt, done.Status.RestoredAt, done.Status.CompletedAt = at(10), at(40), at(60)
	failed := restore("failed", metav1.ConditionFalse, v1alpha1.ReasonNoSpace)
	failed.Status.CompletedAt = at(5)
	runs := restore("runs", metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	runs.Status.Progress = &v1alpha1.Progress{DoneBytes: 30}
	want := `
# HELP howdah_restore_condition 1 while the condition of the Restore is True, 0 while it is False or Unknown.
# TYPE howdah_restore_condition gauge
howdah_restore_condition{cluster="shop",condition="Succeeded",namespace="demo",reason="Completed",restore="done",status="True"} 1
howdah_restore_condition{cluster="shop",condition="Succeeded",namespace="demo",reason="NoSpace",restore="failed",status="False"} 0
howdah_restore_condition{cluster="shop",condition="Succeeded",namespace="demo",reason="Running",restore="runs",status="Unknown"} 0
# HELP howdah_restore_done_bytes How much of its work the Job has done, in bytes.
# TYPE howdah_restore_done_bytes gauge
howdah_restore_done_bytes{cluster="shop",namespace="demo",restore="runs"} 30
# HELP howdah_restore_down_seconds How long the cluster of a restore in place accepted no connections.
# TYPE howdah_restore_down_seconds gauge
howdah_restore_down_seconds{cluster="shop",namespace="demo",restore="done"} 30
# HELP howdah_restore_duration_seconds How long the Restore took, once it has ended.
# TYPE howdah_restore_duration_seconds gauge
howdah_restore_duration_seconds{cluster="shop",namespace="demo",restore="done"} 60
howdah_restore_duration_seconds{cluster="shop",namespace="demo",restore="failed"} 5
# HELP howdah_restore_success_timestamp_seconds When the Restore succeeded; the largest of a cluster is its last success.
# TYPE howdah_restore_success_timestamp_seconds gauge
howdah_restore_success_timestamp_seconds{cluster="shop",namespace="demo",restore="done"} 1060
`
	metrics := Metrics(fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(done, failed, runs).Build())
	err := testutil.CollectAndCompare(metrics, strings.NewReader(want), "howdah_restore_condition", "howdah_restore_done_bytes",
		"howdah_restore_down_seconds", "howdah_restore_duration_seconds", "howdah_restore_success_timestamp_seconds")
	if err != nil {
		t.Error(err)
	}
	if sent := testutil.CollectAndCount(metrics, "howdah_restore_bytes"); sent != 3 {
		t.Errorf("%d sizes", sent)
	}
}
