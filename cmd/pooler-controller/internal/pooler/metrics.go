package pooler

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	metricLabels    = []string{"namespace", "pooler", "cluster"}
	conditionMetric = prometheus.NewDesc("howdah_pooler_condition", "1 while the condition of the Pooler is True, 0 while it is False or Unknown.",
		append(metricLabels, "condition", "status", "reason"), nil)
	instancesMetric = prometheus.NewDesc("howdah_pooler_instances", "How many pods the Pooler should have.", metricLabels, nil)
	readyMetric     = prometheus.NewDesc("howdah_pooler_ready_instances", "How many pods of the Pooler accept clients.", metricLabels, nil)
)

// Metrics are of every Pooler that is there.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.Pooler]{Of: "poolers", Reader: reader, List: &v1alpha1.PoolerList{}, Measure: measure}
}

func measure(p *v1alpha1.Pooler, send statusmetrics.Send) {
	send = send.With(p.Namespace, p.Name, p.Spec.Cluster.Name)
	for _, c := range p.Status.Conditions {
		send(conditionMetric, statusmetrics.Bool(c.Status == metav1.ConditionTrue), c.Type, string(c.Status), c.Reason)
	}
	send(instancesMetric, float64(p.Spec.Instances))
	send(readyMetric, float64(p.Status.ReadyInstances))
}
