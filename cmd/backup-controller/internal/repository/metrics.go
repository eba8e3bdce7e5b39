package repository

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
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
	metricWouldRemove = describeMetric("retention_pending", "Backups that no rule of spec.retention keeps.")
	metricBackups     = describeMetric("backups", "Backups of the lineage that can be read.", "lineage", "cluster", "living")
	metricDamaged     = describeMetric("damaged_backups", "Backups of the lineage whose manifest can't be read, ten at most; one more if lineage.json or the history of a timeline can't be read.", "lineage", "cluster", "living")
	metricStored      = describeMetric("stored_bytes", "Size of the lineage's backups in the bucket.", "lineage", "cluster", "living")
	metricWAL         = describeMetric("wal_bytes", "Size of the lineage's WAL in the bucket.", "lineage", "cluster", "living")
	metricFrom        = describeMetric("recoverable_from_timestamp_seconds", "The earliest time from which every point can be restored; missing if none can.", "lineage", "cluster", "living")
	metricTo          = describeMetric("recoverable_to_timestamp_seconds", "The latest time that can be restored.", "lineage", "cluster", "living")
	metricLast        = describeMetric("last_backup_timestamp_seconds", "When the newest backup ended.", "lineage", "cluster", "living")
	metricFailure     = describeMetric("last_failure_timestamp_seconds", "When the latest of the existing failed Backups failed.", "lineage", "cluster", "living")
)

// Metrics are of all repositories. Their lineages are those that lineages returns, because the status of a repository has no room for many.
func Metrics(reader client.Reader, lineages func(*v1alpha1.BackupRepository) []v1alpha1.LineageStatus) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.BackupRepository]{
		Of: "repositories", Reader: reader, List: &v1alpha1.BackupRepositoryList{},
		Measure: func(repo *v1alpha1.BackupRepository, send statusmetrics.Send) { measure(repo, lineages(repo), send) },
	}
}

func measure(repo *v1alpha1.BackupRepository, lineages []v1alpha1.LineageStatus, send statusmetrics.Send) {
	send = send.With(repo.Namespace, repo.Name)
	send(metricReady, statusmetrics.Bool(meta.IsStatusConditionTrue(repo.Status.Conditions, v1alpha1.ConditionReady)))
	send.Time(metricInventory, repo.Status.LastInventoryTime)
	if retention := repo.Status.Retention; retention != nil {
		send(metricWouldRemove, float64(retention.WouldRemoveCount))
	}
	for _, l := range lineages {
		send := send.With(l.Name, l.Cluster, strconv.FormatBool(l.Living))
		send(metricBackups, float64(l.Backups))
		send(metricDamaged, float64(len(l.Damaged))+statusmetrics.Bool(l.Unreadable != ""))
		send(metricStored, float64(l.StoredBytes))
		send(metricWAL, float64(l.WALBytes))
		send.Time(metricFrom, l.RecoverableFrom)
		send.Time(metricTo, l.RecoverableTo)
		send.Time(metricLast, l.LastBackup)
		send.Time(metricFailure, l.LastFailure)
	}
}
