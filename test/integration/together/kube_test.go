//go:build integration

package together

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// kube does what Kubernetes' own controllers, kubelet, the workers and the agents do, and nothing that is our controllers'.
type kube struct {
	*testing.T
	client.Client
	// ip of every pod.
	ip     string
	mu     sync.Mutex
	places map[string]*place
	// ends counts how Restores and Upgrades have ended.
	ends map[string]int
}

// startKube starts it for all namespaces.
func startKube(t *testing.T) *kube {
	t.Helper()
	mgr, err := ctrl.NewManager(apiserver.Config(), ctrl.Options{
		Scheme: manager.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	k := &kube{T: t, Client: mgr.GetClient(), places: map[string]*place{}, ends: map[string]int{}}
	k.ip = serveAgents(t, k)
	b := ctrl.NewControllerManagedBy(mgr).Named("kube").WithOptions(controller.Options{MaxConcurrentReconciles: 4})
	for _, kind := range []client.Object{
		&appsv1.StatefulSet{}, &corev1.Pod{}, &batchv1.Job{}, &discoveryv1.EndpointSlice{}, &corev1.ConfigMap{},
		&v1alpha1.Restore{}, &v1alpha1.Upgrade{},
	} {
		b = b.Watches(kind, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace()}}}
		}))
	}
	if err := b.Complete(k); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return k
}

func (k *kube) add(p *place) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.places[p.ns] = p
}

func (k *kube) count(end string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ends[end]++
}

func (k *kube) place(ns string) *place {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.places[ns]
}

// Reconcile brings everything in a namespace a step further. What fails is tried again: others write as well.
func (k *kube) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p := k.place(req.Namespace)
	if p == nil {
		return ctrl.Result{}, nil
	}
	s := &sight{}
	for _, list := range []client.ObjectList{&s.sets, &s.pods, &s.jobs, &s.slices, &s.restores, &s.upgrades} {
		if err := k.List(ctx, list, client.InNamespace(p.ns)); err != nil {
			return ctrl.Result{}, err
		}
	}
	k.act(ctx, p, s)
	for i := range s.sets.Items {
		k.runSet(ctx, p, s, &s.sets.Items[i])
	}
	for i := range s.jobs.Items {
		k.runJob(ctx, p, s, &s.jobs.Items[i])
	}
	return ctrl.Result{RequeueAfter: time.Second}, nil
}

// sight is all that is seen of a namespace.
type sight struct {
	sets     appsv1.StatefulSetList
	pods     corev1.PodList
	jobs     batchv1.JobList
	slices   discoveryv1.EndpointSliceList
	restores v1alpha1.RestoreList
	upgrades v1alpha1.UpgradeList
}

func (s *sight) podOf(owner client.Object) *corev1.Pod {
	for i := range s.pods.Items {
		if metav1.IsControlledBy(&s.pods.Items[i], owner) {
			return &s.pods.Items[i]
		}
	}
	return nil
}

// runSet has the one pod of a cluster there, or not there.
func (k *kube) runSet(ctx context.Context, p *place, s *sight, set *appsv1.StatefulSet) {
	pod := s.podOf(set)
	wanted := ptr.Deref(set.Spec.Replicas, 1) > 0
	switch {
	case pod != nil && (!wanted || !pod.DeletionTimestamp.IsZero()):
		p.stop(k.Delete(ctx, pod, client.GracePeriodSeconds(0)), pod)
		pod = nil
	case pod == nil && wanted:
		pod = podFor(set, set.Spec.Template, set.Name+"-0")
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + pod.Name},
		}})
		p.start(k.Create(ctx, pod), pod)
	case pod != nil:
		k.serve(ctx, p, s, pod)
	}
	there := int32(0)
	if pod != nil {
		there = 1
	}
	if set.Status.ObservedGeneration != set.Generation || set.Status.Replicas != there {
		set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, there
		_ = k.Status().Update(ctx, set)
	}
}

// podFor is a pod as a controller of Kubernetes makes it.
func podFor(owner client.Object, template corev1.PodTemplateSpec, name string) *corev1.Pod {
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	if _, isJob := owner.(*batchv1.Job); isJob {
		kind = batchv1.SchemeGroupVersion.WithKind("Job")
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Spec.NodeName = owner.GetNamespace(), name, "w1"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	return pod
}

// serve has a database pod accept connections, lead clients to it, and remove what nobody wants any more.
func (k *kube) serve(ctx context.Context, p *place, s *sight, pod *corev1.Pod) {
	if pod.Status.PodIP == "" {
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, k.ip, []corev1.PodIP{{IP: k.ip}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_ = k.Status().Update(ctx, pod)
	}
	for i := range s.slices.Items {
		if slice := &s.slices.Items[i]; slice.Name == clusterName+"-rw" && len(slice.Endpoints) == 0 {
			slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{k.ip}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
			_ = k.Update(ctx, slice)
		}
	}
	if config := readConfig(ctx, k, p.ns, clusterName); config != nil {
		p.remove(config.Released, pod.Annotations[annotationGeneration])
	}
}

// runJob has a Job's pod work, and the Job end.
func (k *kube) runJob(ctx context.Context, p *place, s *sight, job *batchv1.Job) {
	pod := s.podOf(job)
	switch {
	case job.DeletionTimestamp != nil:
		if pod != nil {
			p.stop(k.Delete(ctx, pod, client.GracePeriodSeconds(0)), pod)
		}
		job.Finalizers = nil
		_ = k.Update(ctx, job)
	case len(job.Status.Conditions) > 0:
	case pod == nil:
		pod = podFor(job, job.Spec.Template, job.Name+"-x")
		p.start(k.Create(ctx, pod), pod)
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		pod.Status.Phase = corev1.PodRunning
		_ = k.Status().Update(ctx, pod)
	case pod.Status.Phase == corev1.PodRunning:
		if outcome := p.work(s, job, k.jobSpec(ctx, job)); outcome != nil {
			p.stop(k.endPod(ctx, pod, outcome), pod)
		}
	default:
		k.endJob(ctx, job, pod.Status.Phase == corev1.PodSucceeded)
	}
}

// jobSpec is job.json, out of the annotation or the ConfigMap that the pod has it from.
func (k *kube) jobSpec(ctx context.Context, job *batchv1.Job) (spec jobSpec) {
	name := filepath.Base(agentapi.JobFile)
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.DownwardAPI == nil {
			continue
		}
		for _, item := range volume.DownwardAPI.Items {
			annotation, is := strings.CutPrefix(item.FieldRef.FieldPath, "metadata.annotations['")
			if item.Path == name && is {
				_ = json.Unmarshal([]byte(job.Spec.Template.Annotations[strings.TrimSuffix(annotation, "']")]), &spec)
			}
		}
	}
	configMap := &corev1.ConfigMap{}
	if k.Get(ctx, client.ObjectKeyFromObject(job), configMap) == nil {
		_ = json.Unmarshal([]byte(configMap.Data[name]), &spec)
	}
	return spec
}

// endPod has a worker leave its termination message.
func (k *kube) endPod(ctx context.Context, pod *corev1.Pod, outcome *agentapi.Outcome) error {
	message, _ := json.Marshal(outcome)
	pod.Status.Phase = corev1.PodSucceeded
	if outcome.Error != nil {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: string(message)},
	}}}
	return k.Status().Update(ctx, pod)
}

func (k *kube) endJob(ctx context.Context, job *batchv1.Job, well bool) {
	now := metav1.Now()
	job.Status.StartTime = &now
	first, second := batchv1.JobFailureTarget, batchv1.JobFailed
	if well {
		first, second = batchv1.JobSuccessCriteriaMet, batchv1.JobComplete
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
	} else {
		job.Status.Failed = 1
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: first, Status: corev1.ConditionTrue}, {Type: second, Status: corev1.ConditionTrue}}
	_ = k.Status().Update(ctx, job)
}

func component(o client.Object) string { return o.GetLabels()[v1alpha1.LabelComponent] }

// writes says that a pod writes to the volume.
func writes(pod *corev1.Pod) bool {
	switch component(pod) {
	case workload.ComponentInstance, workload.ComponentInit, workload.ComponentRestore, workload.ComponentUpgrade:
		return true
	}
	return false
}
