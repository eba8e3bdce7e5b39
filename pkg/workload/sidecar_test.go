package workload

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/howdah/pkg/agentapi"
)

// meshed is a pod of a Job beside whose worker a mesh has injected a proxy, which runs on. code: how the worker has ended; below 0: it runs.
func meshed(code int32, message string, mounts ...corev1.VolumeMount) corev1.Pod {
	worker := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if code >= 0 {
		worker = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	return corev1.Pod{
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "proxy", VolumeMounts: mounts}, {Name: "worker"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-shop-0"},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, {Name: "worker", State: worker},
		}},
	}
}

func TestAJobEndsBesideAnInjectedSidecarThatDoesNot(t *testing.T) {
	done := stateOf(job(), []corev1.Pod{meshed(0, `{"result":{"dataGeneration":"g2"}}`)})
	var result agentapi.UpgradeResult
	if !done.Ended() || !done.Said() || !done.Complete || done.Failed || !done.Result(&result) || result.DataGeneration != "g2" {
		t.Errorf("its work is done: %+v", done)
	}
	failed := stateOf(job(), []corev1.Pod{meshed(1, `{"error":{"reason":"JobFailed","message":"store away"}}`)})
	reason, message := failed.FailureReason()
	if !failed.Ended() || !failed.Failed || failed.Done || reason != "JobFailed" ||
		!strings.HasPrefix(message, "Store away. The Job was not tried again, because container proxy, which was injected") {
		t.Errorf("its work failed: %+v: %s: %s", failed, reason, message)
	}
}

func TestAJobWithASidecarGoesOnWhileItsWorkMay(t *testing.T) {
	for name, pods := range map[string][]corev1.Pod{
		"the worker runs":                   {meshed(-1, "")},
		"what was injected has the volume":  {meshed(0, "{}", corev1.VolumeMount{Name: "data", MountPath: "/data"})},
		"another pod of the Job runs":       {meshed(1, ""), meshed(-1, "")},
		"another pod, of an unknown worker": {meshed(0, ""), {Status: corev1.PodStatus{Phase: corev1.PodUnknown}}},
	} {
		if state := stateOf(job(), pods); state.Ended() || state.Said() {
			t.Errorf("%s: %+v", name, state)
		}
	}
	if state := stateOf(job(batchv1.JobFailed), []corev1.Pod{meshed(1, "")}); !state.Ended() || state.Sidecars != "" {
		t.Errorf("Kubernetes itself has ended it: %+v", state)
	}
}
