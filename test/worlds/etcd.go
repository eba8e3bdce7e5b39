package worlds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// keepOrRestore has one world in some have its store restored from a backup: everything says again what it said, while the volumes have
// what was written since. The Lease stays: what agents make of an older one is what the simulation of the election tries.
func (w *World) keepOrRestore() {
	switch {
	case w.restored:
	case w.backup == nil && w.tense > 0 && w.chance(happenings):
		w.backup, w.adoptions, w.volumes = w.server.Backup(), w.adopted(), w.kube.names()
		w.say("The store of the API server is backed up")
	case w.backup != nil && (w.adopted() != w.adoptions && w.chance(30) || w.chance(happenings)) && w.volumes == w.kube.names():
		w.restored = true
		w.ends["stores restored"]++
		w.server.Restore(w.backup, func(object client.Object) bool { _, is := object.(*coordinationv1.Lease); return is })
		w.say("The store of the API server is restored from its backup")
		w.kube.sync()
	}
}

// adopted is how often data was adopted.
func (w *World) adopted() int64 {
	if cluster := w.people.cluster(); cluster != nil {
		return cluster.Status.Adoptions
	}
	return 0
}

// names are the UIDs of all claims.
func (k *kube) names() string { return fmt.Sprint(slices.Sorted(maps.Keys(k.volumes))) }

// sync is kubelet as it learns that other pods are there than run: it ends those that aren't, and starts or ends the containers of those that are.
func (k *kube) sync() {
	there := map[types.UID]bool{}
	for _, pod := range each[*corev1.Pod](k.world) {
		there[pod.UID] = true
		n := k.node(pod.Spec.NodeName)
		if pod.Status.Phase != corev1.PodRunning || k.world.pg.byUID(pod.UID) != nil || k.workers[pod.UID] != nil {
			continue
		}
		if claim, _ := k.claimOf(pod); pod.Spec.RestartPolicy != corev1.RestartPolicyNever && !n.lost() && claim != nil && !k.attached(k.volumes[claim.UID]) {
			k.restart(pod, n, k.volumes[claim.UID])
			continue
		}
		k.ended(pod, 137, "")
	}
	for _, s := range slices.Clone(k.world.pg.all) {
		if !there[s.uid] {
			k.world.pg.stop(s)
		}
	}
	for uid := range k.workers {
		if !there[uid] {
			k.endWorker(uid)
		}
	}
}

// decideData has a person say which data to run, if the cluster asks: that which the volumes know.
func (p *people) decideData() {
	cluster := p.cluster()
	if cluster == nil {
		return
	}
	ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonStatusOutdated {
		return
	}
	_, value, asks := strings.Cut(ready.Message, v1alpha1.AnnotationRunData+"=")
	value, _, _ = strings.Cut(value, ". ")
	if !asks || cluster.Annotations[v1alpha1.AnnotationRunData] == value {
		return
	}
	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AnnotationRunData, value)
	_ = p.world.api.Patch(p.world.control.ctx, cluster, client.MergeFrom(before))
	p.world.ends["data chosen"]++
	p.world.say("a person decides to run %s", value)
}
