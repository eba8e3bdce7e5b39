package upgrade

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	metricLabels    = []string{"namespace", "upgrade", "cluster", "version"}
	conditionMetric = prometheus.NewDesc("howdah_upgrade_condition", "1 while the condition of the Upgrade is True, 0 while it is False or Unknown.",
		[]string{"namespace", "upgrade", "cluster", "version", "condition", "status", "reason"}, nil)
	durationMetric = prometheus.NewDesc("howdah_upgrade_duration_seconds", "How long the Upgrade took, once it has ended.", metricLabels, nil)
	downMetric     = prometheus.NewDesc("howdah_upgrade_down_seconds",
		"How long the cluster accepted no connections, until the new version ran.", metricLabels, nil)
	doneBytesMetric = prometheus.NewDesc("howdah_upgrade_done_bytes", "How much of its work the Job has done, in bytes.", metricLabels, nil)
	successMetric   = prometheus.NewDesc("howdah_upgrade_success_timestamp_seconds", "When the Upgrade succeeded.", metricLabels, nil)
)

// Metrics are of every Upgrade that is there.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.Upgrade]{Of: "upgrades", Reader: reader, List: &v1alpha1.UpgradeList{}, Measure: measure}
}

func measure(u *v1alpha1.Upgrade, send statusmetrics.Send) {
	status := &u.Status
	send = send.With(u.Namespace, u.Name, u.Spec.Cluster.Name, strconv.Itoa(int(u.Spec.Version)))
	for _, c := range status.Conditions {
		send(conditionMetric, statusmetrics.Bool(c.Status == metav1.ConditionTrue), c.Type, string(c.Status), c.Reason)
		if c.Type == v1alpha1.ConditionSucceeded && c.Status == metav1.ConditionTrue {
			send.Time(successMetric, status.CompletedAt)
		}
	}
	send.Between(durationMetric, status.StartedAt, status.CompletedAt)
	send.Between(downMetric, status.DownAt, status.UpAt)
	if status.Progress != nil {
		send(doneBytesMetric, float64(status.Progress.DoneBytes))
	}
}
