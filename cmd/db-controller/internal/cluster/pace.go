package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// pace is how long small news wait after the last write, so that several are one: on which node a pod is, how far a clone
// has come, what an agent says. Decisions and what changes a condition never wait.
const pace = time.Second

// pause is how long to wait before the status is written; 0: not at all.
func (r *Reconciler) pause(w *world, pass *flow.Pass, outcome flow.Outcome) time.Duration {
	if outcome.Kind != flow.KindWait && !outcome.Finished() || outcome.Rewritten || !w.seen {
		return 0
	}
	before := pass.Before().(*v1alpha1.PostgresCluster)
	if !onlySmallNews(&before.Status, &w.cluster.Status) {
		return 0
	}
	return max(0, pace-w.now.Sub(r.written.lastWrite(w.cluster)))
}

// onlySmallNews: the two differ, and in nothing that somebody acts on at once.
func onlySmallNews(before, now *v1alpha1.PostgresClusterStatus) bool {
	return !equality.Semantic.DeepEqual(before, now) && equality.Semantic.DeepEqual(withoutSmallNews(before), withoutSmallNews(now))
}

func withoutSmallNews(status *v1alpha1.PostgresClusterStatus) *v1alpha1.PostgresClusterStatus {
	large := status.DeepCopy()
	for i := range large.Conditions {
		large.Conditions[i].Message = ""
	}
	large.ReadyInstances, large.Tuning = 0, nil
	for i := range large.Instances {
		instance := large.Instances[i]
		large.Instances[i] = v1alpha1.InstanceStatus{Name: instance.Name, Volume: instance.Volume, PendingRestart: instance.PendingRestart}
	}
	return large
}
