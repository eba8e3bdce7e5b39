//go:build integration

package cluster

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/podmonitor"
	"howdah.dev/howdah/pkg/customqueries"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/subset"
)

// podMonitors is what the Prometheus operator installs, without its schema.
const podMonitors = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podmonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: PodMonitor, listKind: PodMonitorList, plural: podmonitors, singular: podmonitor}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// queries that the agents are told of.
func (l *lab) queries() (names string) {
	configMap, queries := &corev1.ConfigMap{}, []customqueries.Query{}
	if l.there(configMap, "shop-config") {
		_ = json.Unmarshal([]byte(configMap.Data["queries.json"]), &queries) // there may be none
	}
	for _, query := range queries {
		names += query.Name + "@" + strings.Join(query.Databases, ",") + " "
	}
	return names
}

func TestQueriesForMetricsReachTheAgentsAndAPodMonitorComesAndGoes(t *testing.T) {
	subset.OneIn(t, 2)
	l := newLab(t)
	l.stop()
	l.agent.Image, l.account = "registry.local/howdah/agent:1", apiserver.As(t, "db-controller")
	l.startController()
	shop := l.shop(func(shop *v1alpha1.PostgresCluster) {
		shop.Spec.Monitoring = &v1alpha1.Monitoring{
			CustomQueriesConfigMap: []v1alpha1.ConfigMapKey{{Name: "queries", Key: "shop.yaml"}},
			PodMonitor:             &v1alpha1.PodMonitor{Labels: map[string]string{"release": "kps"}, Interval: "30s"},
		}
	})
	l.awaitRunning(shop)
	before := &corev1.Pod{}
	l.there(before, "shop-0")
	says := l.awaitCondition(shop, v1alpha1.ConditionMonitoringReady, metav1.ConditionFalse, v1alpha1.ReasonQueriesRefused)
	if says != "Key shop.yaml of ConfigMap queries: there is no such ConfigMap: create it." {
		t.Error(says)
	}
	const good = "orders: {query: SELECT 1 AS n, metrics: [{n: {usage: GAUGE}}]}\n"
	queries := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "queries"}, Data: map[string]string{"shop.yaml": good + "bad: {query: SELECT 1}"}}
	l.create(queries)
	l.wake(shop)
	l.eventually("the good query is told", func() bool { return l.queries() == "orders@app " })
	l.eventually("the bad one is named", func() bool {
		says := l.awaitCondition(shop, v1alpha1.ConditionMonitoringReady, metav1.ConditionFalse, v1alpha1.ReasonQueriesRefused)
		return strings.Contains(says, "query bad: none of its metrics is a GAUGE or a COUNTER")
	})
	l.change(queries, func() { queries.Data["shop.yaml"] = good })
	l.wake(shop)
	l.awaitCondition(shop, v1alpha1.ConditionMonitoringReady, metav1.ConditionFalse, v1alpha1.ReasonPodMonitorsMissing)

	l.installPodMonitors()
	l.wake(shop)
	l.awaitCondition(shop, v1alpha1.ConditionMonitoringReady, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
	l.eventually("there is a PodMonitor", func() bool { return l.there(podmonitor.New(), "shop") && l.there(&corev1.Secret{}, "shop-metrics") })
	monitor := podmonitor.New()
	l.there(monitor, "shop")
	endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	if monitor.GetLabels()["release"] != "kps" || len(endpoints) != 1 || endpoints[0].(map[string]any)["interval"] != "30s" {
		t.Errorf("it is %v", monitor.Object)
	}
	monitor.Object["spec"] = map[string]any{}
	if err := l.Update(t.Context(), monitor); err != nil {
		t.Fatal(err)
	}
	l.wake(shop)
	l.eventually("it is put back", func() bool {
		l.there(monitor, "shop")
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
		return len(endpoints) == 1
	})

	l.change(shop, func() { shop.Spec.Monitoring = nil })
	l.eventually("all of it is taken back", func() bool {
		return l.queries() == "" && !l.there(podmonitor.New(), "shop") && !l.there(&corev1.Secret{}, "shop-metrics")
	})
	after := &corev1.Pod{}
	if l.there(after, "shop-0"); after.UID != before.UID || len(l.restarted()) > 0 {
		t.Error("monitoring restarted PostgreSQL")
	}
}

// installPodMonitors as the operator does, for as long as the test lasts.
func (l *lab) installPodMonitors() {
	l.Helper()
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(podMonitors), &definition.Object); err != nil {
		l.Fatal(err)
	}
	l.create(definition)
	l.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Delete(ctx, definition); err != nil {
			l.Error(err)
		}
		for !apierrors.IsNotFound(l.Get(ctx, client.ObjectKeyFromObject(definition), definition)) && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
		}
	})
	l.eventually("the kind is served", func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("monitoring.coreos.com/v1")
		list.SetKind("PodMonitorList")
		return l.List(l.Context(), list, client.InNamespace(l.ns)) == nil
	})
}
