package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var conditionMetric = prometheus.NewDesc("howdah_cluster_condition",
	"1 while the condition of the PostgresCluster is True.", []string{"namespace", "cluster", "condition", "reason"}, nil)

// Metrics are of the conditions of every cluster. What database pods tell of themselves ends with them; this is what is left
// to tell of a cluster that has none.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.PostgresCluster]{
		Of: "clusters", Reader: reader, List: &v1alpha1.PostgresClusterList{}, Measure: measure,
	}
}

func measure(cluster *v1alpha1.PostgresCluster, send statusmetrics.Send) {
	for _, c := range cluster.Status.Conditions {
		send(conditionMetric, statusmetrics.Bool(c.Status == metav1.ConditionTrue), cluster.Namespace, cluster.Name, c.Type, c.Reason)
	}
}
