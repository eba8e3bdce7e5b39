package upgrade

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

func TestTheMetricsSayHowEachUpgradeGoes(t *testing.T) {
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(1_000+seconds, 0)} }
	upgrade := func(name string, status metav1.ConditionStatus, reason string) *v1alpha1.Upgrade {
		u := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		u.Spec.Cluster.Name, u.Spec.Version = "shop", 17
		u.Status.StartedAt = at(0)
		u.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status, Reason: reason}}
		return u
	}
	done := upgrade("done", metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	done.Status.DownAt, done.Status.UpAt, done.Status.CompletedAt = at(10), at(17), at(60)
	runs := upgrade("runs", metav1.ConditionUnknown, v1alpha1.ReasonUpgrading)
	runs.Status.Progress = &v1alpha1.Progress{DoneBytes: 30}
	want := `
# HELP howdah_upgrade_condition 1 while the condition of the Upgrade is True, 0 while it is False or Unknown.
# TYPE howdah_upgrade_condition gauge
howdah_upgrade_condition{cluster="shop",condition="Succeeded",namespace="demo",reason="Completed",status="True",upgrade="done",version="17"} 1
howdah_upgrade_condition{cluster="shop",condition="Succeeded",namespace="demo",reason="Upgrading",status="Unknown",upgrade="runs",version="17"} 0
# HELP howdah_upgrade_done_bytes How much of its work the Job has done, in bytes.
# TYPE howdah_upgrade_done_bytes gauge
howdah_upgrade_done_bytes{cluster="shop",namespace="demo",upgrade="runs",version="17"} 30
# HELP howdah_upgrade_down_seconds How long the cluster accepted no connections, until the new version ran.
# TYPE howdah_upgrade_down_seconds gauge
howdah_upgrade_down_seconds{cluster="shop",namespace="demo",upgrade="done",version="17"} 7
# HELP howdah_upgrade_duration_seconds How long the Upgrade took, once it has ended.
# TYPE howdah_upgrade_duration_seconds gauge
howdah_upgrade_duration_seconds{cluster="shop",namespace="demo",upgrade="done",version="17"} 60
# HELP howdah_upgrade_success_timestamp_seconds When the Upgrade succeeded.
# TYPE howdah_upgrade_success_timestamp_seconds gauge
howdah_upgrade_success_timestamp_seconds{cluster="shop",namespace="demo",upgrade="done",version="17"} 1060
`
	metrics := Metrics(fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(done, runs).Build())
	err := testutil.CollectAndCompare(metrics, strings.NewReader(want), "howdah_upgrade_condition", "howdah_upgrade_done_bytes",
		"howdah_upgrade_down_seconds", "howdah_upgrade_duration_seconds", "howdah_upgrade_success_timestamp_seconds")
	if err != nil {
		t.Error(err)
	}
}
