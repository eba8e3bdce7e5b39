package worlds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

const (
	// silence is after what time Kubernetes takes a node for lost, and eviction after what time it deletes the node's pods.
	silence, eviction = 40 * time.Second, 5 * time.Minute
)

// node on which pods run. One that is cut off reaches nobody, but what runs there continues. One that is tainted gets no new pods.
type node struct {
	name              string
	off, cut, tainted bool
	since             time.Time
}

func (n *node) lost() bool { return n.off || n.cut }

// kube is Kubernetes' own controllers, the kubelets, and what they run beside servers.
type kube struct {
	world   *World
	nodes   []*node
	volumes map[types.UID]*volume
	workers map[types.UID]*worker
	ips     map[string]*node
	quota   bool // no more claims are created
	steps   []func()
}

func newKube(w *World) *kube {
	k := &kube{world: w, volumes: map[types.UID]*volume{}, workers: map[types.UID]*worker{}, ips: map[string]*node{}}
	for i := range 3 {
		k.nodes = append(k.nodes, &node{name: fmt.Sprint("node-", i+1)})
	}
	k.steps = []func(){
		k.runSets, k.schedule, k.startPods, k.readyPods, k.endPods, k.runJobs, k.work, k.releaseClaims, k.evict,
		func() { w.server.CollectGarbage() },
	}
	w.server.Admit = k.admit
	return k
}

// admit refuses claims beyond the quota.
func (k *kube) admit(object client.Object) error {
	if _, is := object.(*corev1.PersistentVolumeClaim); is && k.quota {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, object.GetName(), fmt.Errorf("exceeded quota"))
	}
	return nil
}

// step lets some of them do something.
func (k *kube) step() {
	for range 4 {
		k.steps[k.world.random.IntN(len(k.steps))]()
	}
}

func (k *kube) everything() {
	for _, step := range k.steps {
		step()
	}
}

func (k *kube) node(name string) *node {
	for _, n := range k.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// silent: nobody at that address answers, not even with a refusal.
func (k *kube) silent(ip string) bool { return k.ips[ip] != nil && k.ips[ip].lost() }

// get an object by its name.
func (w *World) get(name string, into client.Object) error {
	return w.api.Get(w.control.ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
}

// each object of a kind, as it is stored: nobody changes it.
func each[T client.Object](w *World) (found []T) {
	for _, object := range w.server.All() {
		if o, is := object.(T); is {
			found = append(found, o)
		}
	}
	return found
}

// runSets is the controller of StatefulSets.
func (k *kube) runSets() {
	for _, set := range each[*appsv1.StatefulSet](k.world) {
		if set.DeletionTimestamp != nil {
			continue
		}
		there := int32(0)
		for _, pod := range each[*corev1.Pod](k.world) {
			if !metav1.IsControlledBy(pod, set) {
				continue
			}
			there++
			beyond := ordinalOf(pod.Name) >= int(ptr.Deref(set.Spec.Replicas, 1))
			ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
			if pod.DeletionTimestamp == nil && (beyond || ended) {
				_ = k.world.api.Delete(k.world.control.ctx, pod.DeepCopy())
			}
		}
		for ordinal := range int(ptr.Deref(set.Spec.Replicas, 1)) {
			if name := fmt.Sprintf("%s-%d", set.Name, ordinal); k.world.get(name, &corev1.Pod{}) != nil && k.createPod(set, name) {
				there++
			}
		}
		if set.Status.ObservedGeneration != set.Generation || set.Status.Replicas != there {
			changed := set.DeepCopy()
			changed.Status.ObservedGeneration, changed.Status.Replicas = set.Generation, there
			_ = k.world.api.Status().Update(k.world.control.ctx, changed)
		}
	}
}

func ordinalOf(pod string) int { return int(pod[len(pod)-1] - '0') }

// createPod of a StatefulSet, with its claim.
func (k *kube) createPod(set *appsv1.StatefulSet, name string) bool {
	claim := set.Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Namespace, claim.Name = namespace, claim.Name+"-"+name
	if err := k.world.api.Create(k.world.control.ctx, claim); client.IgnoreAlreadyExists(err) != nil {
		return false
	}
	pod := podOf(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), set.Spec.Template, name)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}})
	if k.world.api.Create(k.world.control.ctx, pod) != nil {
		return false
	}
	k.world.say("pod %s is created", name)
	return true
}

func podOf(owner client.Object, kind schema.GroupVersionKind, template corev1.PodTemplateSpec, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = namespace, name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	return pod
}

// claimOf the data that a pod mounts; nil: it mounts none, or there is none.
func (k *kube) claimOf(pod *corev1.Pod) (claim *corev1.PersistentVolumeClaim, mounts bool) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		if k.world.get(v.PersistentVolumeClaim.ClaimName, claim) != nil {
			return nil, true
		}
		return claim, true
	}
	return nil, false
}

// schedule pods, each to a node that answers. A volume that is attached elsewhere keeps its pods there.
func (k *kube) schedule() {
	for _, pod := range each[*corev1.Pod](k.world) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		claim, mounts := k.claimOf(pod)
		if mounts && (claim == nil || claim.DeletionTimestamp != nil) {
			continue
		}
		var fit []*node
		for _, n := range k.nodes {
			if !n.tainted && (!n.lost() || time.Since(n.since) < silence) {
				fit = append(fit, n)
			}
		}
		changed := pod.DeepCopy()
		if len(fit) == 0 {
			k.unschedulable(changed)
			continue
		}
		changed.Spec.NodeName = fit[k.world.random.IntN(len(fit))].name
		_ = k.world.api.Update(k.world.control.ctx, changed)
		if claim != nil && claim.Status.Phase != corev1.ClaimBound {
			k.bind(claim)
		}
	}
}

// unschedulable says of a pod that it fits nowhere.
func (k *kube) unschedulable(pod *corev1.Pod) {
	if setCondition(pod, corev1.PodScheduled, false) {
		pod.Status.Conditions[len(pod.Status.Conditions)-1].Message = "0/3 nodes are available: 3 node(s) had untolerated taint(s)."
		_ = k.world.api.Status().Update(k.world.control.ctx, pod)
	}
}

func (k *kube) bind(claim *corev1.PersistentVolumeClaim) {
	bound := claim.DeepCopy()
	bound.Status.Phase, bound.Status.Capacity = corev1.ClaimBound, bound.Spec.Resources.Requests
	if k.world.api.Status().Update(k.world.control.ctx, bound) == nil {
		k.volumes[claim.UID] = &volume{claim: claim.Name, data: map[string]*data{}, writers: map[types.UID]string{}}
	}
}

// startPods is kubelet with pods that have yet to run. A volume that a pod of another node uses isn't attached.
func (k *kube) startPods() {
	for _, pod := range each[*corev1.Pod](k.world) {
		n := k.node(pod.Spec.NodeName)
		if n == nil || n.lost() || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
			continue
		}
		var v *volume
		if claim, mounts := k.claimOf(pod); mounts {
			if claim == nil || k.volumes[claim.UID] == nil {
				continue
			}
			if v = k.volumes[claim.UID]; v.node != "" && v.node != n.name {
				if k.attached(v) {
					continue
				}
			}
			v.node = n.name
		}
		k.start(pod, n, v)
	}
}

// attached: a pod on the volume's node uses it.
func (k *kube) attached(v *volume) bool {
	for _, pod := range each[*corev1.Pod](k.world) {
		claim, _ := k.claimOf(pod)
		if claim != nil && k.volumes[claim.UID] == v && pod.Spec.NodeName == v.node && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp != nil) {
			return true
		}
	}
	return len(v.writers) > 0
}

func (k *kube) start(pod *corev1.Pod, n *node, v *volume) {
	changed := pod.DeepCopy()
	ip := fmt.Sprintf("10.0.%d.%d", k.world.server.Version()/250%250, k.world.server.Version()%250)
	k.ips[ip] = n
	setCondition(changed, corev1.PodScheduled, true)
	changed.Status.Phase, changed.Status.PodIP, changed.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	changed.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	if k.world.api.Status().Update(k.world.control.ctx, changed) != nil {
		return
	}
	kind := pod.Labels[v1alpha1.LabelComponent]
	if slices.Contains(workload.WritingComponents, kind) && v != nil {
		for _, other := range v.writers {
			k.world.breaks("%s starts to write to volume %s, while %s writes to it", pod.Name, v.claim, other)
		}
		v.writers[pod.UID] = pod.Name
	}
	k.world.say("pod %s runs on %s", pod.Name, n.name)
	if kind == workload.ComponentInstance {
		k.world.pg.all = append(k.world.pg.all, &server{pod: pod.Name, ip: ip, uid: pod.UID, node: n, volume: v, state: "Starting"})
		return
	}
	k.workers[pod.UID] = &worker{pod: pod.Name, kind: kind, node: n, volume: v}
}

// readyPods is kubelet's probe of servers, and what Kubernetes says of pods on a node that is silent.
func (k *kube) readyPods() {
	for _, pod := range each[*corev1.Pod](k.world) {
		n := k.node(pod.Spec.NodeName)
		if n == nil || pod.Status.Phase != corev1.PodRunning || n.lost() && time.Since(n.since) < silence {
			continue
		}
		ready, s := false, k.world.pg.byUID(pod.UID)
		if !n.lost() {
			ready = s != nil && !s.stopping && (s.leads || s.streams)
		}
		changed := pod.DeepCopy()
		setCondition(changed, corev1.PodReady, ready)
		if !n.lost() {
			setCondition(changed, corev1.ContainersReady, ready)
		}
		if !equality.Semantic.DeepEqual(changed.Status, pod.Status) {
			_ = k.world.api.Status().Update(k.world.control.ctx, changed)
		}
	}
}

// setCondition returns whether it was not there before.
func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, is bool) (added bool) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, metav1.Now()
			}
			return false
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()})
	return true
}

// endPods is kubelet with pods that are told to end: first the process, then what is left of the pod.
func (k *kube) endPods() {
	for _, pod := range each[*corev1.Pod](k.world) {
		n := k.node(pod.Spec.NodeName)
		if pod.DeletionTimestamp == nil || n != nil && n.lost() {
			continue
		}
		if pod.Status.Phase == corev1.PodRunning && k.endProcess(pod) {
			continue
		}
		_ = k.world.api.Delete(k.world.control.ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))
	}
}

// endProcess of a pod. False: there is none any more.
func (k *kube) endProcess(pod *corev1.Pod) bool {
	s, w := k.world.pg.byUID(pod.UID), k.workers[pod.UID]
	exit := int32(0)
	switch {
	case s != nil && !s.stopping:
		s.stopping = true
		k.world.say("%s is being stopped", s.pod)
		return true
	case s != nil && !k.world.calm && k.world.chance(6):
		if time.Now().Before(pod.DeletionTimestamp.Time) {
			return true // it takes its time
		}
		k.world.say("%s is killed, as it didn't end in time", s.pod)
		exit = 137
		k.world.pg.end(s)
	case s != nil:
		k.world.say("%s has stopped", s.pod)
		k.world.pg.stop(s)
	case w != nil:
		exit = 143
		k.endWorker(pod.UID)
	default:
		return false
	}
	k.ended(pod, exit, "")
	return true
}

// ended writes how the one container of a pod ended.
func (k *kube) ended(pod *corev1.Pod, exit int32, message string) {
	changed := &corev1.Pod{}
	if k.world.get(pod.Name, changed) != nil || changed.UID != pod.UID {
		return
	}
	changed.Status.Phase = corev1.PodSucceeded
	if exit != 0 {
		changed.Status.Phase = corev1.PodFailed
	}
	changed.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  pod.Spec.Containers[0].Name,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, Message: message, FinishedAt: metav1.Now()}},
	}}
	_ = k.world.api.Status().Update(k.world.control.ctx, changed)
}

// releaseClaims lets go of claims that are being deleted and that no pod uses.
func (k *kube) releaseClaims() {
	for _, claim := range each[*corev1.PersistentVolumeClaim](k.world) {
		if claim.DeletionTimestamp == nil || k.used(claim) {
			continue
		}
		changed := claim.DeepCopy()
		changed.Finalizers = nil
		if k.world.api.Update(k.world.control.ctx, changed) == nil {
			delete(k.volumes, claim.UID)
		}
	}
}

func (k *kube) used(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(each[*corev1.Pod](k.world), func(pod *corev1.Pod) bool {
		mounted, _ := k.claimOf(pod)
		ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		return mounted != nil && mounted.UID == claim.UID && pod.Spec.NodeName != "" && !ended
	})
}

// evict pods from nodes that have been silent for long.
func (k *kube) evict() {
	for _, pod := range each[*corev1.Pod](k.world) {
		if n := k.node(pod.Spec.NodeName); n != nil && n.lost() && time.Since(n.since) >= eviction && pod.DeletionTimestamp == nil {
			_ = k.world.api.Delete(k.world.control.ctx, pod.DeepCopy())
		}
	}
}

// trouble with a node: it is lost, or comes back, or all of them are tainted.
func (k *kube) trouble() {
	n := k.nodes[k.world.random.IntN(len(k.nodes))]
	switch {
	case n.tainted, k.world.chance(4):
		k.taint(!n.tainted)
	case n.lost():
		k.comeBack(n)
	case slices.ContainsFunc(k.nodes, (*node).lost):
	case k.world.chance(2):
		k.world.say("%s is cut off", n.name)
		n.cut, n.since = true, time.Now()
	default:
		k.world.say("%s loses its power", n.name)
		n.off, n.since = true, time.Now()
		k.endProcesses(n)
	}
}

// written: a Job writes to a volume.
func (k *kube) written() bool {
	for _, worker := range k.workers {
		if worker.volume != nil {
			return true
		}
	}
	return false
}

// endProcesses of a node that has lost its power.
func (k *kube) endProcesses(n *node) {
	for _, s := range slices.Clone(k.world.pg.all) {
		if s.node == n {
			k.world.pg.end(s)
		}
	}
	for uid, w := range k.workers {
		if w.node == n {
			k.endWorker(uid)
		}
	}
}

// comeBack of a node. Kubelet starts the containers of its pods again.
func (k *kube) comeBack(n *node) {
	k.world.say("%s is back", n.name)
	wasOff := n.off
	n.off, n.cut = false, false
	if !wasOff {
		return
	}
	for _, pod := range each[*corev1.Pod](k.world) {
		if pod.Spec.NodeName != n.name || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		if pod.DeletionTimestamp != nil || pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			k.ended(pod, 137, "")
			continue
		}
		claim, _ := k.claimOf(pod)
		k.restart(pod, n, k.volumes[claim.UID])
	}
}

// restart the container of a database pod.
func (k *kube) restart(pod *corev1.Pod, n *node, v *volume) {
	changed := pod.DeepCopy()
	changed.Status.ContainerStatuses[0].RestartCount++
	setCondition(changed, corev1.PodReady, false)
	setCondition(changed, corev1.ContainersReady, false)
	if k.world.api.Status().Update(k.world.control.ctx, changed) != nil {
		return
	}
	for _, other := range v.writers {
		k.world.breaks("%s starts to write to volume %s again, while %s writes to it", pod.Name, v.claim, other)
	}
	v.writers[pod.UID] = pod.Name
	k.world.pg.all = append(k.world.pg.all, &server{pod: pod.Name, ip: pod.Status.PodIP, uid: pod.UID, node: n, volume: v, state: "Starting"})
}

// taint all nodes, or remove the taint: what runs continues, and nothing new is scheduled.
func (k *kube) taint(all bool) {
	k.world.say("all nodes are tainted: %t", all)
	for _, n := range k.nodes {
		n.tainted = all
	}
}

// heal has all nodes come back, and what was refused be granted.
func (k *kube) heal() {
	k.quota = false
	k.taint(false)
	for _, n := range k.nodes {
		if n.lost() {
			k.comeBack(n)
		}
	}
}

// describe is all pods in a line.
func (k *kube) describe() string {
	var all []string
	for _, pod := range each[*corev1.Pod](k.world) {
		all = append(all, fmt.Sprintf("%s %s on %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName))
	}
	return strings.Join(all, ", ")
}
