package worlds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// late is how long after its deadline a lock may still wait: controllers may be dead for a while.
const late = 3 * time.Minute

// check what must always hold.
func (w *World) check() {
	leaders := map[string]string{}
	for _, s := range w.pg.all {
		if !s.leads {
			continue
		}
		if other := leaders[s.generation]; other != "" {
			w.breaks("%s and %s are both primary on data generation %s", other, s.pod, short(s.generation))
		}
		leaders[s.generation] = s.pod
	}
	w.people.note()
	if lost := w.rows.nowhere(); len(lost) > 0 {
		w.breaks("no volume has rows %v any more, which were acknowledged", lost)
	}
	if cluster := w.people.cluster(); cluster != nil {
		w.checkLocks(cluster)
	}
}

// checkLocks: nobody keeps a cluster down for longer than was agreed, unless the new data was handed over.
func (w *World) checkLocks(cluster *v1alpha1.PostgresCluster) {
	for _, lock := range cluster.Status.VolumeLocks {
		waits := lock.State == v1alpha1.VolumeLockQueued || lock.State == v1alpha1.VolumeLockGranted
		if waits && lock.Deadline != nil && min(time.Since(lock.Deadline.Time), w.control.present()) > late && !w.handedOver(lock.Name) {
			w.breaks("%s %s still has the lock %s, %s after its deadline", lock.Kind, lock.Name, lock.State, time.Since(lock.Deadline.Time).Round(time.Second))
		}
	}
}

func (w *World) handedOver(requester string) bool {
	u, r := &v1alpha1.Upgrade{}, &v1alpha1.Restore{}
	return w.get(requester, u) == nil && u.Status.Handover != nil || w.get(requester, r) == nil && r.Status.Handover != nil
}

// satisfied: the cluster is ready, and each Upgrade has ended or waits for a person's word alone.
func (w *World) satisfied() bool { return w.unsatisfied() == "" }

func (w *World) unsatisfied() string {
	var all []string
	if cluster := w.people.cluster(); cluster.Status.ObservedGeneration != cluster.Generation || !meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady) ||
		int(cluster.Status.ReadyInstances) != int(cluster.Spec.Instances) {
		all = append(all, fmt.Sprintf("the cluster says %s (%d of %d instances are ready; %s)", told(cluster.Status.Conditions, v1alpha1.ConditionReady),
			cluster.Status.ReadyInstances, cluster.Spec.Instances, w.kube.describe()))
	}
	for _, u := range each[*v1alpha1.Upgrade](w) {
		awaits := u.Status.CompletedAt != nil && u.Status.Decided == nil
		ended := u.Status.SettledAt != nil || u.Status.CompletedAt != nil && u.Status.UpAt == nil
		if u.DeletionTimestamp != nil || !ended && !awaits || u.Status.VolumeLockRequest != nil {
			all = append(all, fmt.Sprintf("Upgrade %s says %s", u.Name, told(u.Status.Conditions, v1alpha1.ConditionSucceeded)))
		}
	}
	for _, r := range each[*v1alpha1.Restore](w) {
		ended := r.Status.CompletedAt != nil || r.Status.RestoredAt != nil && r.Spec.Decision == ""
		if r.DeletionTimestamp != nil || !ended || r.Status.VolumeLockRequest != nil {
			all = append(all, fmt.Sprintf("Restore %s says %s", r.Name, told(r.Status.Conditions, v1alpha1.ConditionSucceeded)))
		}
	}
	return strings.Join(all, "; ")
}

func told(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s=%s %s: %s", kind, c.Status, c.Reason, c.Message)
}

// count what has come about, by which one sees what worlds are like.
func (w *World) count() {
	w.ends["rows"] += len(w.rows.acked)
	w.ends["rows given up"] += len(w.rows.givenUp)
	for _, u := range each[*v1alpha1.Upgrade](w) {
		if c := meta.FindStatusCondition(u.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
			w.ends["Upgrade "+c.Reason]++
		}
	}
	for _, r := range each[*v1alpha1.Restore](w) {
		if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
			w.ends["Restore "+c.Reason]++
		}
	}
}

// empty: nothing is left but what was meant to be.
func (w *World) empty() bool { return len(w.left()) == 0 }

// left is what should have been deleted. Volumes stay, as there is no backup.
func (w *World) left() (names []string) {
	for _, object := range w.server.All() {
		if _, is := object.(*corev1.PersistentVolumeClaim); !is {
			names = append(names, fmt.Sprintf("%T %s", object, object.GetName()))
		}
	}
	slices.Sort(names)
	return names
}
