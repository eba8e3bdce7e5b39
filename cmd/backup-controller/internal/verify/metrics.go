package verify

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	labels      = []string{"namespace", "backup", "repository"}
	wrongMetric = prometheus.NewDesc("howdah_backup_wrong_objects",
		"Number of objects of the backup that the last complete verification found missing or damaged.", labels, nil)
	verifiedMetric = prometheus.NewDesc("howdah_backup_verified_timestamp_seconds",
		"When the last complete verification of the backup ended, in seconds since 1970.", labels, nil)
)

// Metrics are of every backup that was verified.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.Backup]{Of: "backups", Reader: reader, List: &v1alpha1.BackupList{}, Measure: measure}
}

func measure(backup *v1alpha1.Backup, send statusmetrics.Send) {
	status := &backup.Status
	if status.VerifiedAt == nil || status.Verification == nil || status.Plan == nil {
		return
	}
	send(wrongMetric, float64(status.Verification.WrongObjects), backup.Namespace, backup.Name, status.Plan.Repository)
	send(verifiedMetric, float64(status.VerifiedAt.Unix()), backup.Namespace, backup.Name, status.Plan.Repository)
}
