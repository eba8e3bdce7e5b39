package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// kubelet stands in for kubelets, for the controllers of StatefulSets and Jobs, and for what agents write into objects. It works on
// informers, a cluster at a time.
type kubelet struct {
	client.Client
	fleet *fleet

	// moved are clusters that have another primary.
	moved chan event.GenericEvent

	mu sync.Mutex
	// numbers of clusters and of pods, from 0 on.
	clusters, pods map[client.ObjectKey]int
}

const (
	// concurrency of the stand-in.
	concurrency = 16
	// perNode is how many instances a node has.
	perNode = 20
	// worksFor is how long a pod takes to become ready, and the work of a Job. Times of creation are whole seconds, so it is up to one
	// second less.
	worksFor = 2 * time.Second
)

// errWorking says that a pod isn't ready yet, or that a Job hasn't ended.
var errWorking = errors.New("it takes a moment")

func newKubelet(c client.Client, f *fleet) *kubelet {
	k := &kubelet{Client: c, fleet: f, moved: make(chan event.GenericEvent), clusters: map[client.ObjectKey]int{}, pods: map[client.ObjectKey]int{}}
	f.moved = func(cluster client.ObjectKey) {
		k.moved <- event.GenericEvent{Object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}}}
	}
	return k
}

func (k *kubelet) start(mgr ctrl.Manager) error {
	toCluster := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		name := object.GetLabels()[v1alpha1.LabelCluster]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("kubelet").For(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, toCluster).Watches(&batchv1.Job{}, toCluster).
		Watches(&discoveryv1.EndpointSlice{}, toCluster).Watches(&corev1.ConfigMap{}, toCluster).
		WatchesRawSource(source.Channel(k.moved, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, SkipNameValidation: ptr.To(true)}).Complete(k) // one for each number of clusters
}

// Reconcile brings what runs of one cluster nearer to what its objects say.
func (k *kubelet) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result := ctrl.Result{}
	for _, part := range []func(context.Context, client.ObjectKey) error{k.runJobs, k.runSet, k.runPods, k.elect, k.publish} {
		err := part(ctx, request.NamespacedName)
		switch {
		case errors.Is(err, errWorking):
			result.RequeueAfter = worksFor / 10
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err): // the informer tells what is there
		case client.IgnoreNotFound(err) != nil:
			fmt.Fprintln(os.Stderr, "scale: kubelet:", err)
			return ctrl.Result{}, err
		}
	}
	return result, nil
}

// runSet makes the pods of a StatefulSet.
func (k *kubelet) runSet(ctx context.Context, cluster client.ObjectKey) error {
	set := &appsv1.StatefulSet{}
	if err := k.Get(ctx, cluster, set); err != nil {
		return err
	}
	replicas := ptr.Deref(set.Spec.Replicas, 1)
	for ordinal := range replicas {
		if err := k.createInstance(ctx, cluster, set, int(ordinal)); err != nil {
			return err
		}
	}
	if set.Status.ObservedGeneration == set.Generation {
		return nil
	}
	set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, replicas
	return k.Status().Update(ctx, set)
}

// createInstance of a StatefulSet, unless it is there.
func (k *kubelet) createInstance(ctx context.Context, cluster client.ObjectKey, set *appsv1.StatefulSet, ordinal int) error {
	name, pod := podOf(cluster, ordinal), &corev1.Pod{}
	if err := k.Get(ctx, name, pod); !apierrors.IsNotFound(err) {
		return err
	}
	pod = &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = name.Namespace, name.Name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	pod.Spec.NodeName, pod.Spec.Hostname, pod.Spec.Subdomain = k.node(cluster, ordinal), name.Name, set.Spec.ServiceName
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name.Name},
	}})
	return k.Create(ctx, pod)
}

func podOf(cluster client.ObjectKey, ordinal int) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: fmt.Sprintf("%s-%d", cluster.Name, ordinal)}
}

// runPods makes the pods of a cluster ready, each at an address of its own.
func (k *kubelet) runPods(ctx context.Context, cluster client.ObjectKey) error {
	pods, err := k.podsOf(ctx, cluster)
	if err != nil {
		return err
	}
	var working error
	for i := range pods {
		if err := k.runPod(ctx, &pods[i]); errors.Is(err, errWorking) {
			working = err
		} else if err != nil {
			return err
		}
	}
	return working
}

// podsOf the instances of a cluster.
func (k *kubelet) podsOf(ctx context.Context, cluster client.ObjectKey) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name, v1alpha1.LabelComponent: workload.ComponentInstance}
	err := k.List(ctx, pods, client.InNamespace(cluster.Namespace), labels)
	return pods.Items, err
}

func (k *kubelet) runPod(ctx context.Context, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return k.Delete(ctx, pod, client.GracePeriodSeconds(0))
	}
	switch {
	case pod.Status.Phase == corev1.PodRunning:
		return nil
	case time.Since(pod.CreationTimestamp.Time) < worksFor:
		return errWorking
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, k.address(client.ObjectKeyFromObject(pod))
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return k.Status().Update(ctx, pod)
}

// number of an object among those that were met.
func (k *kubelet) number(of map[client.ObjectKey]int, object client.ObjectKey) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := of[object]; !known {
		of[object] = len(of)
	}
	return of[object]
}

func (k *kubelet) address(pod client.ObjectKey) string {
	i := k.number(k.pods, pod)
	return fmt.Sprintf("10.%d.%d.%d", 128+i/62_500, i/250%250, i%250+1)
}

// node of an instance. Those of one cluster are on different ones.
func (k *kubelet) node(cluster client.ObjectKey, ordinal int) string {
	return fmt.Sprintf("w%d-%d", ordinal, k.number(k.clusters, cluster)/perNode)
}

// elect writes what agents write who the primary is: the lease and the role of each pod.
func (k *kubelet) elect(ctx context.Context, cluster client.ObjectKey) error {
	config, err := k.fleet.config(ctx, cluster)
	if err != nil || config.Instances <= 1 {
		return err
	}
	leader, lease := k.fleet.leader(cluster), &coordinationv1.Lease{}
	if err := k.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: config.Lease}, lease); err != nil {
		return err
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != leader {
		lease.Spec.HolderIdentity = &leader
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, "howdah.dev/election", fmt.Sprintf(`{"generation":%q,"lastHolder":%q}`, config.DataGeneration, leader))
		if err := k.Update(ctx, lease); err != nil {
			return err
		}
	}
	pods, err := k.podsOf(ctx, cluster)
	if err != nil {
		return err
	}
	for i := range pods {
		role := roleOf(pods[i].Name, leader)
		if pods[i].Labels[v1alpha1.LabelRole] == role {
			continue
		}
		metav1.SetMetaDataLabel(&pods[i].ObjectMeta, v1alpha1.LabelRole, role)
		if err := k.Update(ctx, &pods[i]); err != nil {
			return err
		}
	}
	return nil
}

func roleOf(pod, leader string) string {
	if pod == leader {
		return "primary"
	}
	return "replica"
}

// publish leads clients to the primary.
func (k *kubelet) publish(ctx context.Context, cluster client.ObjectKey) error {
	config, err := k.fleet.config(ctx, cluster)
	if err != nil {
		return err
	}
	slice, pod := &discoveryv1.EndpointSlice{}, &corev1.Pod{}
	if err := k.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: config.EndpointSlice}, slice); err != nil {
		return err
	}
	if err := k.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: k.fleet.leader(cluster)}, pod); err != nil || pod.Status.PodIP == "" {
		return err
	}
	if len(slice.Endpoints) == 1 && slice.Endpoints[0].Addresses[0] == pod.Status.PodIP &&
		slice.Annotations[agentapi.AnnotationDataGeneration] == config.DataGeneration {
		return nil
	}
	metav1.SetMetaDataAnnotation(&slice.ObjectMeta, agentapi.AnnotationDataGeneration, config.DataGeneration)
	slice.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{pod.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
	}}
	return k.Update(ctx, slice)
}
