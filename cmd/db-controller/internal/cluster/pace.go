package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// Decisions, and a condition that becomes true or false, are written at once. News of how something goes on wait for more of
// them, so that several are one write: another reason for the same, a message, how many instances are ready, on which node a
// pod is, how far a clone has come, what an agent says of its instance.
const (
	patience = 3 * time.Second
	// firstPatience is for a cluster that has never run: that it does is mostly the next that there is to say.
	firstPatience = 6 * time.Second
)

// pause is how long to wait before the status is written; 0: not at all.
func (r *Reconciler) pause(w *world, pass *flow.Pass, outcome flow.Outcome) time.Duration {
	if outcome.Kind != flow.KindWait && !outcome.Finished() || outcome.Rewritten || !w.seen || len(pass.Replaced()) > 0 {
		return 0
	}
	before := pass.Before().(*v1alpha1.PostgresCluster)
	most := patienceWith(&before.Status, &w.cluster.Status)
	if most == 0 {
		r.written.dropNews(w.cluster)
		return 0
	}
	wait := max(0, most-w.now.Sub(r.written.news(w.cluster, w.now)))
	if outcome.After > 0 {
		return min(wait, outcome.After)
	}
	return wait
}

// patienceWith is how long what differs between the two may wait for more; 0: it may not, or nothing differs.
func patienceWith(before, now *v1alpha1.PostgresClusterStatus) time.Duration {
	large, largeBefore := withoutSmallNews(now), withoutSmallNews(before)
	switch {
	case equality.Semantic.DeepEqual(before, now):
		return 0
	case !equality.Semantic.DeepEqual(withoutSteps(largeBefore, large), withoutSteps(large, large)):
		return 0
	case before.SystemIdentifier == "":
		return firstPatience
	}
	return patience
}

func withoutSmallNews(status *v1alpha1.PostgresClusterStatus) *v1alpha1.PostgresClusterStatus {
	large := status.DeepCopy()
	for i := range large.Conditions {
		large.Conditions[i].Message = ""
	}
	large.Tuning = nil
	for i := range large.Instances {
		instance := large.Instances[i]
		large.Instances[i] = v1alpha1.InstanceStatus{Name: instance.Name, Volume: instance.Volume, PendingRestart: instance.PendingRestart}
	}
	return large
}

// withoutSteps leaves out what is a step on a way, seen from what the status becomes.
func withoutSteps(status, becomes *v1alpha1.PostgresClusterStatus) *v1alpha1.PostgresClusterStatus {
	large := status.DeepCopy()
	for i := range large.Conditions {
		condition := &large.Conditions[i]
		condition.Reason, condition.LastTransitionTime = "", metav1.Time{}
		if condition.Status == metav1.ConditionUnknown && (condition.Type == v1alpha1.ConditionStorageHealthy || condition.Type == v1alpha1.ConditionArchiving) {
			condition.Status = metav1.ConditionTrue // it is no news that it is well once it is known
		}
	}
	if meta.IsStatusConditionTrue(becomes.Conditions, v1alpha1.ConditionUpToDate) && meta.IsStatusConditionFalse(becomes.Conditions, v1alpha1.ConditionReplicated) {
		meta.RemoveStatusCondition(&large.Conditions, v1alpha1.ConditionUpToDate) // who waits for that waits for replicas, too
	}
	large.ReadyInstances = 0
	if large.SystemIdentifier == "" {
		large.SystemIdentifier, large.Primary, large.Timeline, large.Version = becomes.SystemIdentifier, becomes.Primary, becomes.Timeline, becomes.Version
		if large.Archive != nil && becomes.Archive != nil {
			large.Archive.Lineage = becomes.Archive.Lineage
		}
	}
	return large
}
