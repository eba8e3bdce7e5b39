//go:build integration

// Package jobs stands in for the Job controller of Kubernetes, and for the one pod of each Job.
package jobs

import (
	"context"
	"encoding/json"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/agentapi"
)

// stopping is how long a pod takes that is told to end, which is long enough for somebody who doesn't wait to be caught.
const stopping = 1500 * time.Millisecond

// Run ends a Job with that outcome, and finishes its deletion; without an outcome it runs on. What fails is tried again with the
// next call.
func Run(ctx context.Context, c client.Client, job *batchv1.Job, outcome *agentapi.Outcome) {
	switch {
	case stranded(ctx, c, job):
		return
	case job.DeletionTimestamp != nil && len(job.Status.Conditions) == 0 && time.Since(job.DeletionTimestamp.Time) < stopping:
		return
	case job.DeletionTimestamp != nil:
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: podName(job)}}
		if client.IgnoreNotFound(c.Delete(ctx, pod, client.GracePeriodSeconds(0))) != nil {
			return
		}
		job.Finalizers = nil
		_ = c.Update(ctx, job)
		return
	case outcome == nil || len(job.Status.Conditions) > 0 || !endPod(ctx, c, job, outcome):
		return
	}
	now := metav1.Now()
	job.Status.StartTime = &now
	first, second := batchv1.JobSuccessCriteriaMet, batchv1.JobComplete
	if outcome.Error != nil {
		first, second = batchv1.JobFailureTarget, batchv1.JobFailed
		job.Status.Failed = 1
	} else {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: first, Status: corev1.ConditionTrue}, {Type: second, Status: corev1.ConditionTrue}}
	_ = c.Status().Update(ctx, job)
}

// Strand has the pod of a Job run on a node that is lost: Kubernetes tells it to go, and it never does. As long as
// it is there no other pod is created, and a deletion that waits for the pods of the Job doesn't end.
func Strand(ctx context.Context, c client.Client, job *batchv1.Job) error {
	pod := podOf(job)
	pod.Name, pod.Spec.NodeName = job.Name+"-lost", "lost"
	if err := c.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return c.Delete(ctx, pod)
}

func stranded(ctx context.Context, c client.Client, job *batchv1.Job) bool {
	pod := &corev1.Pod{}
	err := c.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: job.Name + "-lost"}, pod)
	return err == nil && metav1.IsControlledBy(pod, job)
}

func podName(job *batchv1.Job) string { return job.Name + "-x" }

func podOf(job *batchv1.Job) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = job.Namespace, podName(job)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	return pod
}

// endPod has the pod of a Job leave its termination message.
func endPod(ctx context.Context, c client.Client, job *batchv1.Job, outcome *agentapi.Outcome) bool {
	pod := podOf(job)
	if err := c.Create(ctx, pod); err != nil {
		if c.Get(ctx, client.ObjectKeyFromObject(pod), pod) != nil || !metav1.IsControlledBy(pod, job) {
			return false
		}
	}
	message, _ := json.Marshal(outcome)
	end := &corev1.ContainerStateTerminated{Message: string(message)}
	pod.Status.Phase = corev1.PodSucceeded
	if outcome.Error != nil {
		pod.Status.Phase, end.ExitCode = corev1.PodFailed, agentapi.ExitFinal
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Terminated: end}}}
	return c.Status().Update(ctx, pod) == nil
}
