package cluster

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/rollout"
	"howdah.dev/howdah/pkg/statusmetrics"
)

var (
	conditionMetric = prometheus.NewDesc("howdah_cluster_condition",
		"1 while the condition of the PostgresCluster is True, 0 while it is False or Unknown.", []string{"namespace", "cluster", "condition", "reason"}, nil)
	infoMetric = prometheus.NewDesc("howdah_cluster_info",
		"1, with the major version and the image of PostgreSQL that run.", []string{"namespace", "cluster", "version", "image"}, nil)
	findingMetric = prometheus.NewDesc("howdah_cluster_finding",
		"1 while status.findings of the PostgresCluster has this reason.", []string{"namespace", "cluster", "reason"}, nil)
	replicasMetric = prometheus.NewDesc("howdah_cluster_autoscale_replicas",
		"Replicas beside the primary, by kind: recommended for the load by spec.autoscale.replicas, or applied instead of spec.instances.", []string{"namespace", "cluster", "kind"}, nil)
	standbyLagMetric = prometheus.NewDesc("howdah_standby_lag_bytes",
		"WAL in the archive of its source that a standby has not replayed yet, as whole segments.", []string{"namespace", "cluster"}, nil)
	standbyReplayedMetric = prometheus.NewDesc("howdah_standby_replayed_timestamp_seconds",
		"When the last transaction was committed that a standby has replayed.", []string{"namespace", "cluster"}, nil)
	standbyArchivedMetric = prometheus.NewDesc("howdah_standby_archived_timestamp_seconds",
		"When the newest segment in the archive of its source was stored.", []string{"namespace", "cluster"}, nil)
	updateMetric = prometheus.NewDesc("howdah_cluster_update_pending",
		"Minor: 1 while the suite has another image for the version that runs; major: 1 while spec.version is higher than that version.",
		[]string{"namespace", "cluster", "update"}, nil)
)

// Metrics are of the conditions of every cluster, and of what it runs. What database pods tell of themselves ends with them; this is
// what is left to tell of a cluster that has none.
func Metrics(reader client.Reader) prometheus.Collector {
	return statusmetrics.Collector[*v1alpha1.PostgresCluster]{
		Of: "clusters", Reader: reader, List: &v1alpha1.PostgresClusterList{}, Measure: measure,
	}
}

// RolloutMetrics are to how many clusters changes are rolled out.
func (r *Reconciler) RolloutMetrics() prometheus.Collector { return rollout.Metrics(r.rollouts) }

func measure(cluster *v1alpha1.PostgresCluster, send statusmetrics.Send) {
	for _, c := range cluster.Status.Conditions {
		send(conditionMetric, statusmetrics.Bool(c.Status == metav1.ConditionTrue), cluster.Namespace, cluster.Name, c.Type, c.Reason)
	}
	status := &cluster.Status
	for i := range status.Findings {
		send(findingMetric, 1, cluster.Namespace, cluster.Name, status.Findings[i].Reason)
	}
	if scale := status.Autoscale; scale != nil && scale.Replicas != nil && scale.Replicas.Recommended != nil {
		send(replicasMetric, float64(scale.Replicas.Recommended.Replicas), cluster.Namespace, cluster.Name, "recommended")
	}
	if applied := status.AppliedReplicas(); applied != nil {
		send(replicasMetric, float64(applied.Instances-1), cluster.Namespace, cluster.Name, "applied")
	}
	measureStandby(cluster, send)
	if status.MajorVersion == 0 {
		return // nothing has run yet
	}
	send(infoMetric, 1, cluster.Namespace, cluster.Name, strconv.Itoa(int(status.MajorVersion)), status.Image)
	send(updateMetric, statusmetrics.Bool(status.PendingUpdate != nil), cluster.Namespace, cluster.Name, "minor")
	send(updateMetric, statusmetrics.Bool(cluster.Spec.Version > status.MajorVersion), cluster.Namespace, cluster.Name, "major")
}

// measureStandby tells of a standby until it was promoted.
func measureStandby(cluster *v1alpha1.PostgresCluster, send statusmetrics.Send) {
	standby := cluster.Status.Standby
	if standby == nil || standby.PromotedAt != nil {
		return
	}
	if standby.ArchivedLSN != "" && standby.ReplayedLSN != "" {
		send(standbyLagMetric, float64(standby.LagBytes), cluster.Namespace, cluster.Name)
	}
	if at := standby.ReplayedTime; at != nil {
		send(standbyReplayedMetric, float64(at.Unix()), cluster.Namespace, cluster.Name)
	}
	if at := standby.ArchivedAt; at != nil {
		send(standbyArchivedMetric, float64(at.Unix()), cluster.Namespace, cluster.Name)
	}
}
