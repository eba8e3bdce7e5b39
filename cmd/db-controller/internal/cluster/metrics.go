package cluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Metrics tells of the conditions of every cluster, read from the cache at each look. What database pods tell of themselves
// ends with them; this is what is left to tell of a cluster that has none.
type Metrics struct {
	Reader client.Reader
}

var conditionMetric = prometheus.NewDesc("howdah_cluster_condition",
	"1 while the condition of the PostgresCluster is True.", []string{"namespace", "cluster", "condition", "reason"}, nil)

// Describe names the metric.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) { out <- conditionMetric }

// Collect sends it.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	clusters := &v1alpha1.PostgresClusterList{}
	if err := m.Reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not filled yet
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		for _, ready := range cluster.Status.Conditions {
			value := 0.0
			if ready.Status == metav1.ConditionTrue {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(conditionMetric, prometheus.GaugeValue, value,
				cluster.Namespace, cluster.Name, ready.Type, ready.Reason)
		}
	}
}
