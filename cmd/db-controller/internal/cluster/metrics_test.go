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
	fresh := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "fresh"}}
	metrics := Metrics(fake.NewClientBuilder().WithScheme(scheme).WithObjects(shop, fresh).Build())
	want := `
# HELP howdah_cluster_condition 1 while the condition of the PostgresCluster is True.
# TYPE howdah_cluster_condition gauge
howdah_cluster_condition{cluster="shop",condition="Ready",namespace="demo",reason="Running"} 1
howdah_cluster_condition{cluster="shop",condition="Replicated",namespace="demo",reason="ReplicaDown"} 0
howdah_cluster_condition{cluster="shop",condition="UpToDate",namespace="demo",reason="Unseen"} 0
`
	if err := testutil.CollectAndCompare(metrics, strings.NewReader(want), "howdah_cluster_condition"); err != nil {
		t.Error(err)
	}
}
