package restore

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	metricLabels    = []string{"namespace", "restore", "cluster"}
	conditionMetric = prometheus.NewDesc("howdah_restore_condition", "1 while the condition of the Restore is True, 0 while it is False or Unknown.",
		[]string{"namespace", "restore", "cluster", "condition", "status", "reason"}, nil)
	durationMetric = prometheus.NewDesc("howdah_restore_duration_seconds", "How long the Restore took, once it has ended.", metricLabels, nil)
	downMetric     = prometheus.NewDesc("howdah_restore_down_seconds",
		"How long the cluster of a restore in place accepted no connections.", metricLabels, nil)
	bytesMetric     = prometheus.NewDesc("howdah_restore_bytes", "Size of the backup on the volume.", metricLabels, nil)
	doneBytesMetric = prometheus.NewDesc("howdah_restore_done_bytes", "How much of its work the Job has done, in bytes.", metricLabels, nil)
	successMetric   = prometheus.NewDesc("howdah_restore_success_timestamp_seconds", "When the Restore succeeded; the largest of a cluster is its last success.", metricLabels, nil)
)

// Metrics are of every Restore that is there.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.Restore]{Of: "restores", Reader: reader, List: &v1alpha1.RestoreList{}, Measure: measure}
}

func measure(restore *v1alpha1.Restore, send statusmetrics.Send) {
	status := &restore.Status
	send = send.With(restore.Namespace, restore.Name, restore.Spec.Destination.ClusterName())
	for _, c := range status.Conditions {
		send(conditionMetric, statusmetrics.Bool(c.Status == metav1.ConditionTrue), c.Type, string(c.Status), c.Reason)
		if c.Type == v1alpha1.ConditionSucceeded && c.Status == metav1.ConditionTrue {
			send.Time(successMetric, status.CompletedAt)
		}
	}
	send.Between(durationMetric, status.StartedAt, status.CompletedAt)
	send.Between(downMetric, status.DownAt, status.RestoredAt)
	if status.Plan != nil {
		send(bytesMetric, float64(status.Plan.WriteBytes))
	}
	if status.Progress != nil {
		send(doneBytesMetric, float64(status.Progress.DoneBytes))
	}
}
