package failoverdrill

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	metricLabels    = []string{"namespace", "failoverdrill", "cluster", "fault"}
	conditionMetric = prometheus.NewDesc("howdah_failoverdrill_condition", "1 while the condition of the FailoverDrill is True, 0 while it is False or Unknown.",
		[]string{"namespace", "failoverdrill", "cluster", "fault", "condition", "status", "reason"}, nil)
	gapMetric     = prometheus.NewDesc("howdah_failoverdrill_gap_seconds", "The longest time in which no row was acknowledged on new connections.", metricLabels, nil)
	gapKeptMetric = prometheus.NewDesc("howdah_failoverdrill_gap_kept_seconds", "The longest time in which no row was acknowledged on a kept connection.", metricLabels, nil)
	lostMetric    = prometheus.NewDesc("howdah_failoverdrill_lost_rows", "Rows that were acknowledged and are missing.", metricLabels, nil)
	wholeMetric   = prometheus.NewDesc("howdah_failoverdrill_whole_seconds", "The time from the fault until all instances ran and followed again.", metricLabels, nil)
	endMetric     = prometheus.NewDesc("howdah_failoverdrill_end_timestamp_seconds", "When the FailoverDrill ended.", metricLabels, nil)
)

// Metrics are of every FailoverDrill that is there.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.FailoverDrill]{Of: "failoverdrills", Reader: reader, List: &v1alpha1.FailoverDrillList{}, Measure: measure}
}

func measure(d *v1alpha1.FailoverDrill, send statusmetrics.Send) {
	send = send.With(d.Namespace, d.Name, d.Spec.Cluster.Name, string(d.Spec.Fault.Type))
	for _, c := range d.Status.Conditions {
		send(conditionMetric, statusmetrics.Bool(c.Status == metav1.ConditionTrue), c.Type, string(c.Status), c.Reason)
	}
	send.Time(endMetric, d.Status.CompletedAt)
	if result := d.Status.Result; result != nil {
		send(gapMetric, result.LongestGap.Seconds())
		send(gapKeptMetric, result.LongestGapKept.Seconds())
		send(lostMetric, float64(result.RowsLost))
		send(wholeMetric, result.TimeToWhole.Seconds())
	}
}
