package drill

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	labels        = []string{"namespace", "repository"}
	failedMetric  = prometheus.NewDesc("howdah_drill_failed", "1 if the last drill failed, 0 if it succeeded.", labels, nil)
	successMetric = prometheus.NewDesc("howdah_drill_last_success_timestamp_seconds", "When a drill last succeeded; missing if none has.", labels, nil)
	tookMetric    = prometheus.NewDesc("howdah_drill_duration_seconds", "How long the last drill took until it had an outcome.", labels, nil)
	restoreMetric = prometheus.NewDesc("howdah_drill_restore_seconds",
		"How long the last drill took to restore, until the restored cluster accepted connections; missing if it did not.", labels, nil)
)

// Metrics are of the last drill of every repository.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.BackupRepository]{
		Of: "drills", Reader: reader, List: &v1alpha1.BackupRepositoryList{}, Measure: measure,
	}
}

func measure(repo *v1alpha1.BackupRepository, send statusmetrics.Send) {
	status := repo.Status.Drill
	if status == nil || status.Last == nil {
		return
	}
	last, send := status.Last, send.With(repo.Namespace, repo.Name)
	send(failedMetric, statusmetrics.Bool(last.Outcome == v1alpha1.DrillFailed))
	send.Between(tookMetric, &last.StartedAt, last.CompletedAt)
	if last.RestoreSeconds > 0 {
		send(restoreMetric, float64(last.RestoreSeconds))
	}
	send.Time(successMetric, status.LastSuccessTime)
}
