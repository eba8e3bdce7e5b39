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
		"Objects of the backup that were missing or damaged when all of them were last read.", labels, nil)
	verifiedMetric = prometheus.NewDesc("howdah_backup_verified_timestamp_seconds",
		"When all objects of the backup were last read.", labels, nil)
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
