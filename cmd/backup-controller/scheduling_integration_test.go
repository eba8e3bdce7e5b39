//go:build integration

package main

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
)

func tolerates(job *batchv1.Job, keys ...string) bool {
	var found []string
	for _, toleration := range job.Spec.Template.Spec.Tolerations {
		found = append(found, toleration.Key)
	}
	return slices.Equal(found, keys)
}

// instance makes the pod of an instance that was created to tolerate these taints.
func (b *bed) instance(name string, taints ...string) {
	b.Helper()
	pod := &corev1.Pod{}
	pod.Name = name
	pod.Spec.NodeName = "w1"
	pod.Spec.Containers = []corev1.Container{{Name: "postgres", Image: "postgresql:17"}}
	for _, taint := range taints {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists})
	}
	b.make(pod)
}

func TestJobsRunWhereTheClusterMay(t *testing.T) {
	b := newBed(t)
	b.make(b.repository("minio"))
	b.instance("shop-0", "former")
	b.cluster("shop", func(c *v1alpha1.PostgresCluster) {
		c.Spec.Scheduling = v1alpha1.Scheduling{
			NodeSelector: map[string]string{"disk": "fast"}, PriorityClassName: "high",
			Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		}
	})
	job := b.job(b.backup("first", "shop").Name + "-backup")
	pod := job.Spec.Template.Spec
	// The API server gives the instance two tolerations more, as it does with every pod.
	if !tolerates(job, "dedicated", "former", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable") || pod.PriorityClassName != "high" || len(pod.NodeSelector) > 0 {
		t.Errorf("the backup runs with %+v, selector %v, priority %q", pod.Tolerations, pod.NodeSelector, pod.PriorityClassName)
	}
	b.end(job, success())

	job = b.verification(b.succeeded("second", verified))
	pod = job.Spec.Template.Spec
	if !tolerates(job, "dedicated") || pod.PriorityClassName != "high" || pod.NodeSelector["disk"] != "fast" {
		t.Errorf("the verification runs with %+v, selector %v, priority %q", pod.Tolerations, pod.NodeSelector, pod.PriorityClassName)
	}
}
