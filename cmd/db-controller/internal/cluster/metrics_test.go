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
