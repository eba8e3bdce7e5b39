package drillschedule

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	conditionMetric = prometheus.NewDesc("howdah_failoverdrillschedule_condition", "1 while the condition of the FailoverDrillSchedule is True, 0 while it is False or Unknown.",
		[]string{"namespace", "failoverdrillschedule", "condition", "status", "reason"}, nil)
	lastMetric = prometheus.NewDesc("howdah_failoverdrillschedule_last_timestamp_seconds", "When the last round of the FailoverDrillSchedule was due.", []string{"namespace", "failoverdrillschedule"}, nil)
)

// Metrics are of every FailoverDrillSchedule that is there.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.FailoverDrillSchedule]{
		Of: "failoverdrillschedules", Reader: reader, List: &v1alpha1.FailoverDrillScheduleList{}, Measure: measure,
	}
}

func measure(s *v1alpha1.FailoverDrillSchedule, send statusmetrics.Send) {
	send = send.With(s.Namespace, s.Name)
	for _, c := range s.Status.Conditions {
		send(conditionMetric, statusmetrics.Bool(c.Status == metav1.ConditionTrue), c.Type, string(c.Status), c.Reason)
	}
	send.Time(lastMetric, s.Status.LastScheduleTime)
}
