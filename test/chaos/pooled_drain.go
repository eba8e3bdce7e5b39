package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// drain takes the primary's node out of service, as for its maintenance.
func drain(r *round) {
	node := r.primary.Spec.NodeName
	heal := r.healing(func() { r.kubectl("uncordon", node) })
	r.strike()
	r.kubectl("drain", node, "--pod-selector="+v1alpha1.LabelCluster+"="+name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m")
	r.awaitFailover()
	heal()
}

func (r *round) kubectl(args ...string) {
	r.Helper()
	if out, err := exec.Command(place.Kubectl(r.T), args...).CombinedOutput(); err != nil {
		r.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// longDrain is a spec.drainTimeout that no round lasts for: a pod that is evicted keeps its clients to the end of it.
const longDrain = "30m"

// besideThePrimary moves one pod of the Pooler to the primary's node before clients begin. The other one stays where it is never hurt. What it returns
// moves it back.
func besideThePrimary(r *round) (back func()) {
	r.Helper()
	node := r.primary.Spec.NodeName
	elsewhere := r.replica(r.primary).Spec.NodeName // where the pod that replaces the evicted one finds a place
	r.place(longDrain, v1alpha1.Scheduling{
		NodeAffinity: only([]string{home, node, elsewhere}, []string{home, node}), Spread: v1alpha1.SpreadRequired,
		Tolerations: []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}},
	})
	r.until("a pod of the Pooler on "+home+" and another one on "+node, recoveryTime, func(ctx context.Context) error {
		pods, err := r.poolers(ctx)
		if err != nil {
			return err
		}
		var nodes []string
		for _, pod := range pods {
			nodes = append(nodes, pod.Spec.NodeName)
		}
		slices.Sort(nodes)
		if want := []string{home, node}; !slices.Equal(nodes, slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("they are on %v", nodes)
		}
		return nil
	})
	return r.atHome
}

// scheduledAtHome keeps the pods of the Pooler on the node that is never hurt.
func scheduledAtHome() v1alpha1.Scheduling {
	return v1alpha1.Scheduling{
		NodeSelector: map[string]string{corev1.LabelHostname: home}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
}

// atHome moves all pods of the Pooler back, for the next round.
func (r *round) atHome() {
	r.Helper()
	r.place("60s", scheduledAtHome())
	r.until("all pods of the Pooler on "+home, recoveryTime, func(ctx context.Context) error {
		pods, err := r.poolers(ctx)
		for _, pod := range pods {
			if pod.Spec.NodeName != home {
				err = fmt.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
			}
		}
		return err
	})
}

// place changes where the pods of the Pooler run, and how long those that end keep their clients, and waits until all are as wanted.
func (r *round) place(drain string, scheduling v1alpha1.Scheduling) {
	r.Helper()
	fields := map[string]any{"nodeSelector": nil, "nodeAffinity": nil, "tolerations": nil, "spread": nil}
	content, err := json.Marshal(scheduling)
	r.Must(err)
	r.Must(json.Unmarshal(content, &fields))
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"drainTimeout": drain, "scheduling": fields}})
	r.Must(err)
	pooler := &v1alpha1.Pooler{ObjectMeta: r.Meta(name)}
	r.Merge(pooler, string(patch))
	r.Await(pooler, "all pods as they are wanted", func() bool {
		i := slices.IndexFunc(pooler.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionReady })
		return i >= 0 && pooler.Status.Conditions[i].ObservedGeneration == pooler.Generation && pooler.Status.Conditions[i].Reason == v1alpha1.ReasonRunning
	})
}

// only lets pods run on some nodes, and has them prefer some of these.
func only(allowed, preferred []string) *corev1.NodeAffinity {
	on := func(nodes []string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes}}}
	}
	return &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{on(allowed)}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: on(preferred)}},
	}
}

// poolers are the pods of the Pooler that are not to end.
func (r *round) poolers(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := r.List(ctx, pods, client.InNamespace(r.Namespace), client.MatchingLabels{v1alpha1.LabelPooler: name})
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() }), err
}

// drainBoth drains the node that has the primary and a pod of the Pooler. That pod has clients to the end of the round. kubectl drain would wait for it,
// so this does what it does before it waits.
func drainBoth(r *round) {
	node := r.primary.Spec.NodeName
	pods, err := r.poolers(r.Context())
	r.Must(err)
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node })
	if i < 0 {
		r.Fatalf("no pod of the Pooler is on %s", node)
	}
	evicted := &pods[i]
	heal := r.healing(func() { r.kubectl("uncordon", node) })
	r.strike()
	r.kubectl("cordon", node)
	r.evict(evicted)
	r.evict(r.primary)
	r.awaitFailover()
	heal()
	now := &corev1.Pod{}
	if err := r.Get(r.Context(), client.ObjectKeyFromObject(evicted), now); err != nil || now.UID != evicted.UID || now.DeletionTimestamp.IsZero() {
		r.Errorf("%s was to be evicted, and to serve its clients for %s: %v", evicted.Name, longDrain, err)
	}
}

// evict asks for a pod's eviction until no PodDisruptionBudget refuses it.
func (r *round) evict(pod *corev1.Pod) {
	r.Helper()
	r.until(pod.Name+" evicted", recoveryTime, func(ctx context.Context) error {
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
		}
		err := r.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it has gone, or is another one by now
			return nil
		}
		return err
	})
}
