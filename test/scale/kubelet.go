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
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// kubelet stands in for kubelets, for the controllers of StatefulSets and Jobs, and for what an agent writes into an EndpointSlice. It
// works on informers, a cluster at a time.
type kubelet struct {
	client.Client
	fleet *fleet

	mu sync.Mutex
	// numbers of clusters, from 0 on.
	numbers map[client.ObjectKey]int
}

const (
	// concurrency of the stand-in.
	concurrency = 16
	// perNode is how many clusters a node has.
	perNode = 20
	// worksFor is how long a pod takes to become ready, and the work of a Job. Times of creation are whole seconds, so it is up to one
	// second less.
	worksFor = 2 * time.Second
)

// errWorking says that a pod isn't ready yet, or that a Job hasn't ended.
var errWorking = errors.New("it takes a moment")

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
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, SkipNameValidation: ptr.To(true)}).Complete(k) // one for each number of clusters
}

// Reconcile brings what runs of one cluster nearer to what its objects say.
func (k *kubelet) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result := ctrl.Result{}
	for _, part := range []func(context.Context, client.ObjectKey) error{k.runJobs, k.runSet, k.runPod, k.publish} {
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

// runSet makes the pod of a StatefulSet.
func (k *kubelet) runSet(ctx context.Context, cluster client.ObjectKey) error {
	set, pod := &appsv1.StatefulSet{}, &corev1.Pod{}
	if err := k.Get(ctx, cluster, set); err != nil {
		return err
	}
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-0"}
	if err := k.Get(ctx, name, pod); apierrors.IsNotFound(err) && ptr.Deref(set.Spec.Replicas, 1) > 0 {
		pod = &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = name.Namespace, name.Name
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		pod.Spec.NodeName, pod.Spec.Hostname, pod.Spec.Subdomain = k.node(cluster), name.Name, set.Spec.ServiceName
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name.Name},
		}})
		if err := k.Create(ctx, pod); err != nil {
			return err
		}
	}
	if set.Status.ObservedGeneration == set.Generation {
		return nil
	}
	set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, ptr.Deref(set.Spec.Replicas, 1)
	return k.Status().Update(ctx, set)
}

// runPod makes the pod ready, at an address of its own.
func (k *kubelet) runPod(ctx context.Context, cluster client.ObjectKey) error {
	pod := &corev1.Pod{}
	if err := k.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-0"}, pod); err != nil {
		return err
	}
	if !pod.DeletionTimestamp.IsZero() {
		return k.Delete(ctx, pod, client.GracePeriodSeconds(0))
	}
	switch {
	case pod.Status.Phase == corev1.PodRunning:
		return nil
	case time.Since(pod.CreationTimestamp.Time) < worksFor:
		return errWorking
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, k.address(cluster)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return k.Status().Update(ctx, pod)
}

func (k *kubelet) number(cluster client.ObjectKey) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.numbers[cluster]; !known {
		k.numbers[cluster] = len(k.numbers)
	}
	return k.numbers[cluster]
}

func (k *kubelet) address(cluster client.ObjectKey) string {
	i := k.number(cluster)
	return fmt.Sprintf("10.%d.%d.%d", 128+i/62_500, i/250%250, i%250+1)
}

func (k *kubelet) node(cluster client.ObjectKey) string {
	return fmt.Sprintf("w%d", k.number(cluster)/perNode)
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
	if err := k.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-0"}, pod); err != nil || pod.Status.PodIP == "" {
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
