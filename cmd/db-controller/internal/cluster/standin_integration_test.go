//go:build integration

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/yaml"

	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

// standIn does in one namespace what the StatefulSet and Job controllers, kubelet and the agents do.
type standIn struct {
	client client.Client
	ns     string

	mu sync.Mutex
	// initError is what the init Job fails with.
	initError *agentapi.JobError
	// found is what Jobs find on volumes, by their names.
	found map[string]agentapi.VolumeInspection
	// initRuns: the init Job has yet to end.
	initRuns bool
	// answer changes what agents say.
	answer func(*agentapi.Status)
	// silent agents don't respond.
	silent bool
	// deaf are clusters whose agents accept connections and never answer.
	deaf map[string]bool
	// looks counts the questions of how an agent is, and inWorkers those that a worker of the controller waited for.
	looks, inWorkers int
	// volumes are what becomes of claims.
	volumes volumes
	// unpublished primaries don't say where clients shall go.
	unpublished bool
	// unarchived is WAL that a primary has not archived when its pod ends; unsaid: it says nothing.
	unarchived []string
	unsaid     bool
	// noRoom is what nodes say when a pod is to be given other resources; empty: it is.
	noRoom string
	// notReady pods don't become ready.
	notReady bool
	// refused are the pods that the namespace refuses, with why.
	refused map[string]string
	// broken is an image in which PostgreSQL doesn't start.
	broken string
	// made are the pods that were made, in order.
	made []string
	// restarts that agents were asked for, by pod, and switchovers.
	restarts    []string
	switchovers []agentapi.SwitchoverRequest
	// faults that agents were asked for: the pod, the fault and the token of each.
	faults []string
	// reinits that agents were asked for, by pod, and what becomes of them; empty: they are done.
	reinits    map[string][]string
	reinitEnds string
	// refusal is what switchovers are refused with.
	refusal string
	// leaders are the primaries of clusters whose agents elect, and terms count them.
	leaders map[string]string
	terms   int64
}

func newStandIn(c client.Client, ns string) *standIn {
	return &standIn{client: c, ns: ns, leaders: map[string]string{}}
}

func (s *standIn) set(change func(*standIn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// once brings everything a step further. Errors are left to the next time: others write as well.
func (s *standIn) once(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inNamespace := client.InNamespace(s.ns)
	sets, pods, jobs := &appsv1.StatefulSetList{}, &corev1.PodList{}, &batchv1.JobList{}
	if s.client.List(ctx, sets, inNamespace) != nil || s.client.List(ctx, pods, inNamespace) != nil || s.client.List(ctx, jobs, inNamespace) != nil {
		return
	}
	for i := range pods.Items {
		s.runPod(ctx, &pods.Items[i])
		s.runResize(ctx, &pods.Items[i])
	}
	s.runClaims(ctx)
	for i := range sets.Items {
		if !sets.Items[i].DeletionTimestamp.IsZero() {
			s.orphan(ctx, &sets.Items[i], pods.Items)
			continue
		}
		s.adopt(ctx, &sets.Items[i], pods.Items)
		s.runSet(ctx, &sets.Items[i], pods.Items)
		s.runElection(ctx, sets.Items[i].Name, pods.Items)
		s.publish(ctx, sets.Items[i].Name, pods.Items)
	}
	for i := range jobs.Items {
		s.runJob(ctx, &jobs.Items[i], pods.Items)
	}
}

func (s *standIn) runSet(ctx context.Context, set *appsv1.StatefulSet, pods []corev1.Pod) {
	var mine []corev1.Pod
	for _, pod := range pods {
		if metav1.IsControlledBy(&pod, set) {
			mine = append(mine, pod)
		}
	}
	replicas := int(ptr.Deref(set.Spec.Replicas, 1))
	for ordinal := range observed.MaxInstances {
		name := fmt.Sprintf("%s-%d", set.Name, ordinal)
		there := slices.IndexFunc(mine, func(pod corev1.Pod) bool { return pod.Name == name })
		switch {
		case ordinal < replicas && there < 0 && s.refused[name] != "":
			s.refuse(ctx, set, "create Pod "+name+" in StatefulSet "+set.Name+" failed error: "+s.refused[name])
		case ordinal < replicas && there < 0 && !s.leaves(ctx, "data-"+name):
			if s.client.Create(ctx, s.podOf(set, name)) == nil {
				s.made = append(s.made, name)
			}
		case ordinal >= replicas && there >= 0:
			s.sayEnded(ctx, set.Name, name)
			_ = s.client.Delete(ctx, &mine[there], client.GracePeriodSeconds(0))
		}
	}
	if set.Status.ObservedGeneration != set.Generation || int(set.Status.Replicas) != len(mine) {
		set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, int32(len(mine))
		_ = s.client.Status().Update(ctx, set)
	}
}

func (s *standIn) podOf(set *appsv1.StatefulSet, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = s.ns, name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	pod.Spec.NodeName, pod.Spec.Hostname, pod.Spec.Subdomain = "w1", name, set.Spec.ServiceName
	for i := range set.Spec.VolumeClaimTemplates {
		template := set.Spec.VolumeClaimTemplates[i].Name
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: template + "-" + name},
		}})
	}
	return pod
}

// config is what the agents of a cluster are told.
func (s *standIn) config(ctx context.Context, cluster string) *agentapi.Config {
	configMap, config := &corev1.ConfigMap{}, &agentapi.Config{}
	if s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: cluster + "-config"}, configMap) != nil ||
		json.Unmarshal([]byte(configMap.Data["agent.json"]), config) != nil {
		return nil
	}
	return config
}

func (s *standIn) runPod(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		_ = s.client.Delete(ctx, pod, client.GracePeriodSeconds(0))
		return
	}
	ready := corev1.ConditionTrue
	if s.notReady || s.fenced(ctx, pod.Labels["howdah.dev/cluster"], pod.Name) {
		ready = corev1.ConditionFalse
	}
	if pod.Labels["app.kubernetes.io/component"] == "instance" && s.broken != "" && pod.Spec.Containers[0].Image == s.broken {
		pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{{Name: "postgres", Image: s.broken, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"},
		}}}
		_ = s.client.Status().Update(ctx, pod)
		return
	}
	if pod.Labels["app.kubernetes.io/component"] != "instance" || observed.PodReady(pod) == (ready == corev1.ConditionTrue) && pod.Status.Phase == corev1.PodRunning {
		return
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.0.0.7"+pod.Name[len(pod.Name)-1:] // another for each
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
	_ = s.client.Status().Update(ctx, pod)
}

// runJob ends a Job well, or with initError by way of a pod.
func (s *standIn) runJob(ctx context.Context, job *batchv1.Job, pods []corev1.Pod) {
	if len(job.Finalizers) > 0 && job.DeletionTimestamp != nil {
		job.Finalizers = nil
		_ = s.client.Update(ctx, job)
		return
	}
	if why := s.refused[job.Name]; why != "" {
		s.refuse(ctx, job, "Error creating: "+why)
		return
	}
	if len(job.Status.Conditions) > 0 || job.DeletionTimestamp != nil || s.initRuns {
		return
	}
	now := metav1.Now()
	if found, is := s.found[job.Name]; is && !s.foundBy(ctx, job, found, pods) {
		return
	}
	job.Status.StartTime = &now
	if s.initError != nil {
		if !s.failedPod(ctx, job, pods) {
			return
		}
		job.Status.Failed = 1
		job.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}, {Type: batchv1.JobFailed, Status: corev1.ConditionTrue},
		}
	} else {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
		job.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
		}
	}
	if err := s.client.Status().Update(ctx, job); err != nil {
		fmt.Println("stand-in:", err)
	}
}

// foundBy a pod of a Job, which has ended well. False: it is being created.
func (s *standIn) foundBy(ctx context.Context, job *batchv1.Job, found agentapi.VolumeInspection, pods []corev1.Pod) bool {
	result, _ := json.Marshal(found)
	message, _ := json.Marshal(agentapi.Outcome{Result: result})
	for _, pod := range pods {
		if metav1.IsControlledBy(&pod, job) {
			pod.Status.Phase = corev1.PodSucceeded
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Message: string(message)},
			}}}
			return s.client.Status().Update(ctx, &pod) == nil
		}
	}
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Labels[batchv1.ControllerUidLabel] = s.ns, job.Name+"-x", string(job.UID)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	_ = s.client.Create(ctx, pod)
	return false
}

func (s *standIn) failedPod(ctx context.Context, job *batchv1.Job, pods []corev1.Pod) bool {
	message, _ := json.Marshal(agentapi.Outcome{Error: s.initError})
	for _, pod := range pods {
		if !metav1.IsControlledBy(&pod, job) {
			continue
		}
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: agentapi.ExitFinal, Message: string(message)},
		}}}
		return s.client.Status().Update(ctx, &pod) == nil
	}
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = s.ns, job.Name+"-x"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	_ = s.client.Create(ctx, pod)
	return false
}

// Status is what the agent of a pod would answer: it has applied what its ConfigMap says.
func (s *standIn) Status(ctx context.Context, target agentclient.Target) (*agentapi.Status, error) {
	name, rest, _ := strings.Cut(target.Host, ".")
	service, _, _ := strings.Cut(rest, ".")
	if s.isDeaf(ctx, strings.TrimSuffix(service, "-pods")) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		return nil, errors.New("no answer")
	}
	pod := &corev1.Pod{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: name}, pod); err != nil {
		return nil, err
	}
	cluster := strings.TrimSuffix(service, "-pods")
	config := s.config(ctx, cluster)
	if config == nil {
		return nil, errors.New("no configuration")
	}
	status := &agentapi.Status{
		Pod: name, DataGeneration: pod.Annotations[statefulset.AnnotationDataGeneration], SystemIdentifier: "7000000000000000001",
		State: agentapi.StateRunning, Role: "primary", Timeline: 1, Version: fmt.Sprintf("%d.5", config.MajorVersion), ConfigHash: config.Hash(),
	}
	if config.Instances > 1 {
		s.elected(cluster, config, status)
	}
	if config.Declared != nil {
		status.Declared = &agentapi.DeclaredStatus{Hash: config.Declared.Hash()}
	}
	status.ServerTLS = s.serverTLS(ctx, cluster)
	if config.Failover != nil && slices.Contains(config.Failover.Fenced, name) {
		status.State, status.Replication = agentapi.StateStopped, nil
	}
	if s.answer != nil {
		s.answer(status)
	}
	return status, nil
}

// isDeaf counts a question, and says whether it will never be answered.
func (s *standIn) isDeaf(ctx context.Context, cluster string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if controller.ReconcileIDFromContext(ctx) != "" {
		s.inWorkers++
	}
	return s.deaf[cluster]
}

// Restart notes that it was asked.
func (s *standIn) Restart(_ context.Context, target agentclient.Target, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, _, _ := strings.Cut(target.Host, ".")
	s.restarts = append(s.restarts, pod)
	return nil
}

func toYAML(v any) string {
	data, _ := yaml.Marshal(v)
	return string(data)
}

// serverTLS is what an agent tells that has all that the Secret of pods has by now.
func (s *standIn) serverTLS(ctx context.Context, cluster string) *agentapi.ServerTLSStatus {
	told, all, copied := &agentapi.ServerTLSStatus{}, agentapi.Passwords{}, &corev1.Secret{}
	if s.client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: cluster + "-instance"}, copied) != nil || json.Unmarshal(copied.Data["roles.json"], &all) != nil {
		return told
	}
	if shown := all[agentapi.ServerCertificateKey]; len(shown) > 0 {
		told.Certificate = agentapi.HashTLS(shown)
	}
	if trust := all[agentapi.LDAPTrustKey]; len(trust) > 0 {
		told.LDAP = agentapi.HashTLS(trust)
	}
	if trust := all[agentapi.ClientTrustKey]; len(trust) > 0 {
		told.Clients = agentapi.HashTLS(trust)
	}
	if trust := all[agentapi.ServerTrustKey]; len(trust) > 0 {
		told.Trust = agentapi.HashTLS(trust)
	}
	return told
}
