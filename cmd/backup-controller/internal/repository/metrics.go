package repository

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

func describeMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("howdah_repository_"+name, help, append([]string{"namespace", "repository"}, labels...), nil)
}

var (
	metricReady       = describeMetric("ready", "1 while the repository is usable, else 0.")
	metricInventory   = describeMetric("last_inventory_timestamp_seconds", "When the last inventory of the bucket was taken.")
	metricWouldRemove = describeMetric("retention_pending", "Backups that no rule in spec.retention keeps.")
	metricBackups     = describeMetric("backups", "Readable backups of the lineage.", "lineage", "cluster", "living")
	metricDamaged     = describeMetric("damaged_backups", "Backups of the lineage whose manifest is unreadable, at most ten.", "lineage", "cluster", "living")
	metricStored      = describeMetric("stored_bytes", "Size of the lineage's backups in the bucket.", "lineage", "cluster", "living")
	metricWAL         = describeMetric("wal_bytes", "Size of the lineage's WAL in the bucket.", "lineage", "cluster", "living")
	metricFrom        = describeMetric("recoverable_from_timestamp_seconds", "The earliest time from which every point in time can be restored.", "lineage", "cluster", "living")
	metricTo          = describeMetric("recoverable_to_timestamp_seconds", "The latest time that can be restored.", "lineage", "cluster", "living")
	metricLast        = describeMetric("last_backup_timestamp_seconds", "When the newest backup ended.", "lineage", "cluster", "living")
	metricFailure     = describeMetric("last_failure_timestamp_seconds", "When a Backup last failed.", "lineage", "cluster", "living")
)

// Metrics are of all repositories.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.BackupRepository]{
		Of: "repositories", Reader: reader, List: &v1alpha1.BackupRepositoryList{}, Measure: measure,
	}
}

func measure(repo *v1alpha1.BackupRepository, send statusmetrics.Send) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		send(desc, value, append([]string{repo.Namespace, repo.Name}, labels...)...)
	}
	gauge(metricReady, statusmetrics.Bool(meta.IsStatusConditionTrue(repo.Status.Conditions, v1alpha1.ConditionReady)))
	if at := repo.Status.LastInventoryTime; at != nil {
		gauge(metricInventory, float64(at.Unix()))
	}
	if retention := repo.Status.Retention; retention != nil {
		gauge(metricWouldRemove, float64(retention.WouldRemoveCount))
	}
	for _, l := range repo.Status.Lineages {
		labels := []string{l.Name, l.Cluster, map[bool]string{true: "true", false: "false"}[l.Living]}
		gauge(metricBackups, float64(l.Backups), labels...)
		gauge(metricDamaged, float64(len(l.Damaged)), labels...)
		gauge(metricStored, float64(l.StoredBytes), labels...)
		gauge(metricWAL, float64(l.WALBytes), labels...)
		for desc, at := range map[*prometheus.Desc]*metav1.Time{
			metricFrom: l.RecoverableFrom, metricTo: l.RecoverableTo, metricLast: l.LastBackup, metricFailure: l.LastFailure,
		} {
			if at != nil {
				gauge(desc, float64(at.Unix()), labels...)
			}
		}
	}
}
