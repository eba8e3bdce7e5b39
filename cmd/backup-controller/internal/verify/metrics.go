package verify

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Metrics tells of every backup that was verified, read from the cache at each look: nothing is kept that could be
// forgotten.
type Metrics struct {
	Reader client.Reader
}

var (
	labels      = []string{"namespace", "backup", "repository"}
	wrongMetric = prometheus.NewDesc("howdah_backup_wrong_objects",
		"Objects of the backup that are missing or not what was stored, as was found when all of them were last read.", labels, nil)
	verifiedMetric = prometheus.NewDesc("howdah_backup_verified_timestamp_seconds",
		"When all objects of the backup were last read.", labels, nil)
)

// Describe names the metrics.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- wrongMetric
	out <- verifiedMetric
}

// Collect sends them.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	backups := &v1alpha1.BackupList{}
	if err := m.Reader.List(ctx, backups); err != nil {
		return // the cache is not filled yet
	}
	for i := range backups.Items {
		status := &backups.Items[i].Status
		if status.VerifiedAt == nil || status.Verification == nil || status.Plan == nil {
			continue
		}
		values := []string{backups.Items[i].Namespace, backups.Items[i].Name, status.Plan.Repository}
		out <- prometheus.MustNewConstMetric(wrongMetric, prometheus.GaugeValue, float64(status.Verification.WrongObjects), values...)
		out <- prometheus.MustNewConstMetric(verifiedMetric, prometheus.GaugeValue, float64(status.VerifiedAt.Unix()), values...)
	}
}
