package drill

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Metrics tells of the last drill of every repository, read from the cache at each look.
type Metrics struct {
	Reader client.Reader
}

var (
	labels        = []string{"namespace", "repository"}
	failedMetric  = prometheus.NewDesc("howdah_drill_failed", "1 if the last drill has failed.", labels, nil)
	successMetric = prometheus.NewDesc("howdah_drill_last_success_timestamp_seconds", "When a drill succeeded last.", labels, nil)
	tookMetric    = prometheus.NewDesc("howdah_drill_duration_seconds", "How long the last drill took, until its outcome.", labels, nil)
	restoreMetric = prometheus.NewDesc("howdah_drill_restore_seconds",
		"How long the last drill took to restore, until the restored cluster took connections.", labels, nil)
)

// Describe names the metrics.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{failedMetric, successMetric, tookMetric, restoreMetric} {
		out <- desc
	}
}

// Collect sends them.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	repos := &v1alpha1.BackupRepositoryList{}
	if err := m.Reader.List(ctx, repos); err != nil {
		return // the cache is not filled yet
	}
	for i := range repos.Items {
		if status := repos.Items[i].Status.Drill; status != nil && status.Last != nil {
			measure(out, status, repos.Items[i].Namespace, repos.Items[i].Name)
		}
	}
}

func measure(out chan<- prometheus.Metric, status *v1alpha1.DrillStatus, values ...string) {
	send := func(desc *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, values...)
	}
	last, failed := status.Last, 0.0
	if last.Outcome == v1alpha1.DrillFailed {
		failed = 1
	}
	send(failedMetric, failed)
	if last.CompletedAt != nil {
		send(tookMetric, last.CompletedAt.Sub(last.StartedAt.Time).Seconds())
	}
	if last.RestoreSeconds > 0 {
		send(restoreMetric, float64(last.RestoreSeconds))
	}
	if status.LastSuccessTime != nil {
		send(successMetric, float64(status.LastSuccessTime.Unix()))
	}
}
