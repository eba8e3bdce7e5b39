package protocol

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// week is the time that spec.maxPerWeek of a FailoverDrill is about.
const week = 7 * 24 * time.Hour

// mostFaults is how many times PostgresCluster.status.drilledFaults has.
const mostFaults = 50

// FailoverDrillName is the name of the objects of a FailoverDrill.
func FailoverDrillName(drill string) string { return drill + "-failover-drill" }

// FailoverDrillSecret has the certificate of the Job that writes rows.
func FailoverDrillSecret(cluster string) string { return cluster + "-failover-drill" }

// FailoverDrillOf is the FailoverDrill that the db-controller responds to: the one that it responds to already, for as long as that
// requests something, else the oldest that does. Nil: none does.
func FailoverDrillOf(cluster *v1alpha1.PostgresCluster, drills []v1alpha1.FailoverDrill) *v1alpha1.FailoverDrill {
	asking := slices.DeleteFunc(slices.Clone(drills), func(d v1alpha1.FailoverDrill) bool {
		return d.Namespace != cluster.Namespace || d.Spec.Cluster.Name != cluster.Name || d.Status.Request == nil || d.Status.Request.ClusterUID != cluster.UID
	})
	if len(asking) == 0 {
		return nil
	}
	slices.SortFunc(asking, func(a, b v1alpha1.FailoverDrill) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	if last := cluster.Status.FailoverDrill; last != nil {
		if i := slices.IndexFunc(asking, func(d v1alpha1.FailoverDrill) bool { return d.UID == last.UID }); i >= 0 {
			return &asking[i]
		}
	}
	return &asking[0]
}

// FailoverDrillResponse is the response of a cluster to a drill; nil: there is none yet.
func FailoverDrillResponse(cluster *v1alpha1.PostgresCluster, drill *v1alpha1.FailoverDrill) *v1alpha1.ClusterFailoverDrill {
	response := cluster.Status.FailoverDrill
	if response == nil || response.UID != drill.UID || drill.Status.Request == nil || drill.Status.Request.ClusterUID != cluster.UID {
		return nil
	}
	return response
}

// DrilledFaults are the times of the last week among those that are known.
func DrilledFaults(known []metav1.Time, now time.Time) []metav1.Time {
	recent := slices.DeleteFunc(slices.Clone(known), func(at metav1.Time) bool { return now.Sub(at.Time) >= week })
	if len(recent) == 0 {
		return nil
	}
	return recent[max(0, len(recent)-mostFaults):]
}

// NextFault is when another fault may be caused within the budget of a week; zero: now.
func NextFault(known []metav1.Time, most int32, now time.Time) time.Time {
	recent := DrilledFaults(known, now)
	if len(recent) < int(most) {
		return time.Time{}
	}
	return recent[len(recent)-int(most)].Add(week)
}

// FaultMayLose says that a fault takes a primary down before its replicas have everything: where commits don't wait for replicas, those of
// applications could be lost.
func FaultMayLose(fault v1alpha1.FailoverFault) bool {
	return fault.Force || fault.Type == v1alpha1.FaultKillPostmaster || fault.Type == v1alpha1.FaultFreezePostmaster
}
