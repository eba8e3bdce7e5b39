package cluster

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
)

func TestTheMetricsSayWhatTheConditionsSay(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	shop := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"}}
	shop.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRunning},
		{Type: v1alpha1.ConditionReplicated, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReplicaDown},
		{Type: v1alpha1.ConditionUpToDate, Status: metav1.ConditionUnknown, Reason: "Unseen"},
	}
	shop.Spec.Version = 18
	shop.Status.MajorVersion, shop.Status.Image = 17, "postgres:17.5"
	fresh := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "fresh"}}
	metrics := Metrics(fake.NewClientBuilder().WithScheme(scheme).WithObjects(shop, fresh).Build())
	want := `
# HELP howdah_cluster_condition 1 while the condition of the PostgresCluster is True, 0 while it is False or Unknown.
# TYPE howdah_cluster_condition gauge
howdah_cluster_condition{cluster="shop",condition="Ready",namespace="demo",reason="Running"} 1
howdah_cluster_condition{cluster="shop",condition="Replicated",namespace="demo",reason="ReplicaDown"} 0
howdah_cluster_condition{cluster="shop",condition="UpToDate",namespace="demo",reason="Unseen"} 0
# HELP howdah_cluster_info 1, with the major version and the image of PostgreSQL that run.
# TYPE howdah_cluster_info gauge
howdah_cluster_info{cluster="shop",image="postgres:17.5",namespace="demo",version="17"} 1
# HELP howdah_cluster_update_pending Minor: 1 while the suite has another image for the version that runs; major: 1 while spec.version is higher than that version.
# TYPE howdah_cluster_update_pending gauge
howdah_cluster_update_pending{cluster="shop",namespace="demo",update="major"} 1
howdah_cluster_update_pending{cluster="shop",namespace="demo",update="minor"} 0
`
	if err := testutil.CollectAndCompare(metrics, strings.NewReader(want), "howdah_cluster_condition", "howdah_cluster_info", "howdah_cluster_update_pending"); err != nil {
		t.Error(err)
	}
}

func TestAStandbyIsMeasuredUntilItIsPromoted(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := metav1.Unix(1772366400, 0)
	follows := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"}}
	follows.Status.Standby = &v1alpha1.StandbyStatus{ReplayedLSN: "0/5000000", ArchivedLSN: "0/6000000", LagBytes: 1 << 24, ReplayedTime: &at, ArchivedAt: &at}
	promoted := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "promoted"}}
	promoted.Status.Standby = follows.Status.Standby.DeepCopy()
	promoted.Status.Standby.PromotedAt = &at
	begins := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "begins"}}
	begins.Status.Standby = &v1alpha1.StandbyStatus{ArchivedLSN: "0/6000000"}
	metrics := Metrics(fake.NewClientBuilder().WithScheme(scheme).WithObjects(follows, promoted, begins).Build())
	want := `
# HELP howdah_standby_archived_timestamp_seconds When the newest segment in the archive of its source was stored.
# TYPE howdah_standby_archived_timestamp_seconds gauge
howdah_standby_archived_timestamp_seconds{cluster="shop",namespace="demo"} 1.7723664e+09
# HELP howdah_standby_lag_bytes WAL in the archive of its source that a standby has not replayed yet, as whole segments.
# TYPE howdah_standby_lag_bytes gauge
howdah_standby_lag_bytes{cluster="shop",namespace="demo"} 1.6777216e+07
# HELP howdah_standby_replayed_timestamp_seconds When the last transaction was committed that a standby has replayed.
# TYPE howdah_standby_replayed_timestamp_seconds gauge
howdah_standby_replayed_timestamp_seconds{cluster="shop",namespace="demo"} 1.7723664e+09
`
	names := []string{"howdah_standby_archived_timestamp_seconds", "howdah_standby_lag_bytes", "howdah_standby_replayed_timestamp_seconds"}
	if err := testutil.CollectAndCompare(metrics, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
