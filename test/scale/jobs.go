package main

import (
	"context"
	"encoding/json"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/workload"
)

// runJobs brings the Jobs of a cluster to their end.
func (k *kubelet) runJobs(ctx context.Context, cluster client.ObjectKey) error {
	jobs := &batchv1.JobList{}
	if err := k.List(ctx, jobs, client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return err
	}
	var last error
	for i := range jobs.Items {
		if err := k.runJob(ctx, cluster, &jobs.Items[i]); err != nil {
			last = err
		}
	}
	return last
}

func (k *kubelet) runJob(ctx context.Context, cluster client.ObjectKey, job *batchv1.Job) error {
	pods := &corev1.PodList{}
	if err := k.List(ctx, pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}); err != nil {
		return err
	}
	switch {
	case !job.DeletionTimestamp.IsZero():
		return k.removeJob(ctx, job, pods.Items)
	case len(job.Status.Conditions) > 0:
		return nil
	case job.Labels[v1alpha1.LabelComponent] == workload.ComponentInit:
		return k.endJob(ctx, job) // nobody reads what its pod says
	case len(pods.Items) == 0:
		return k.createPod(ctx, job, k.node(cluster, 0))
	case time.Since(job.CreationTimestamp.Time) < worksFor:
		return errWorking
	}
	if err := k.endPod(ctx, &pods.Items[0], reportOf(job)); err != nil {
		return err
	}
	return k.endJob(ctx, job)
}

func (k *kubelet) createPod(ctx context.Context, job *batchv1.Job, node string) error {
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Spec.NodeName = job.Namespace, job.Name+"-pod", node
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if err := k.Create(ctx, pod); err != nil {
		return err
	}
	return errWorking
}

// endPod ends the pod of a Job well, with what its worker says.
func (k *kubelet) endPod(ctx context.Context, pod *corev1.Pod, report any) error {
	result, err := json.Marshal(report)
	if err != nil {
		return err
	}
	outcome, err := json.Marshal(agentapi.Outcome{Result: result})
	if err != nil {
		return err
	}
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodSucceeded, nil
	for _, container := range pod.Spec.Containers {
		ended := &corev1.ContainerStateTerminated{FinishedAt: metav1.Now(), Reason: "Completed"}
		if container.Name == workload.WorkerContainer {
			ended.Message = string(outcome)
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, State: corev1.ContainerState{Terminated: ended},
		})
	}
	return k.Status().Update(ctx, pod)
}

// reportOf is what the worker of a Job says at its end.
func reportOf(job *batchv1.Job) any {
	switch job.Labels[v1alpha1.LabelComponent] {
	case workload.ComponentImage:
		return agentapi.ImageResult{Version: release}
	case workload.ComponentBackup:
		return agentapi.BackupResult{
			Version: release, StartLSN: "0/2000028", StopLSN: "0/2000100", StopTime: time.Now(),
			LogicalBytes: logicalBytes, CopiedBytes: logicalBytes, StoredBytes: logicalBytes / 4,
		}
	}
	return struct{}{}
}

// logicalBytes of a backup.
const logicalBytes = 1 << 28

// endJob ends a Job well.
func (k *kubelet) endJob(ctx context.Context, job *batchv1.Job) error {
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	job.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
	}
	return k.Status().Update(ctx, job)
}

// removeJob lets a Job go that is being deleted, after its pods.
func (k *kubelet) removeJob(ctx context.Context, job *batchv1.Job, pods []corev1.Pod) error {
	for i := range pods {
		if err := k.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	job.Finalizers = nil
	return k.Update(ctx, job)
}
