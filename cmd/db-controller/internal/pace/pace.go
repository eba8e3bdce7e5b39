// Package pace bundles small changes of a status into few writes, and lets no decision wait.
//
// A decision, and a condition that becomes true or false, are written at once. News of how something continues wait for more of
// them, so that several are one write: another reason for the same status, a message, how many instances are ready, on which
// node a pod is, how far a clone has come, what an agent says of its instance.
package pace

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

const (
	// Patience is how long news may wait for more.
	Patience = 3 * time.Second
	// firstPatience is for a cluster that has never run: that it does is mostly the next that there is to say.
	firstPatience = 6 * time.Second
)

// Pacer knows since when there are news of a cluster that are not written. Its zero value knows of none.
type Pacer struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]news
}

type news struct {
	uid   types.UID
	since time.Time
}

// Wait is how long to wait before the status is written, which was before and becomes what it is now; 0: not at all.
func (p *Pacer) Wait(before, becomes *v1alpha1.PostgresCluster, now time.Time) time.Duration {
	most := patienceWith(&before.Status, &becomes.Status)
	if most == 0 {
		p.Written(becomes)
		return 0
	}
	return max(0, most-now.Sub(p.since(becomes, now)))
}

// since is when the first of the news came.
func (p *Pacer) since(cluster *v1alpha1.PostgresCluster, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[types.NamespacedName]news{}
	}
	name := client.ObjectKeyFromObject(cluster)
	if p.waiting[name].uid != cluster.UID {
		p.waiting[name] = news{cluster.UID, now}
	}
	return p.waiting[name].since
}

// Written says that no news of the cluster wait: they were written, or there are none.
func (p *Pacer) Written(cluster *v1alpha1.PostgresCluster) {
	p.Forget(client.ObjectKeyFromObject(cluster))
}

// Forget a cluster that no longer exists.
func (p *Pacer) Forget(cluster types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, cluster)
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
	return Patience
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
