//go:build integration

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// limited is a quota that wants limits of CPU and memory of every pod.
func (b *bed) limited() {
	b.Helper()
	quota := &corev1.ResourceQuota{}
	quota.Name = "limits"
	quota.Spec.Hard = corev1.ResourceList{
		corev1.ResourceLimitsCPU: resource.MustParse("8"), corev1.ResourceLimitsMemory: resource.MustParse("8Gi"),
		corev1.ResourceRequestsCPU: resource.MustParse("8"), corev1.ResourceRequestsMemory: resource.MustParse("8Gi"),
	}
	b.make(quota)
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{} // there is no controller here that counts
	for name := range quota.Spec.Hard {
		quota.Status.Used[name] = resource.MustParse("0")
	}
	if err := b.Status().Update(b.Context(), quota); err != nil {
		b.Fatal(err)
	}
	if !apiserver.Eventually(b.namespace, time.Minute, func() bool {
		err := b.admits(corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "x"}}})
		return err != nil && strings.Contains(err.Error(), "must specify limits.cpu")
	}) {
		b.Fatal("the quota has no effect")
	}
}

// admits is why a pod is refused; nil: it is not.
func (b *bed) admits(spec corev1.PodSpec) error {
	pod := &corev1.Pod{Spec: spec}
	pod.Namespace, pod.GenerateName, pod.Spec.ServiceAccountName = b.namespace, "probe-", ""
	return b.Create(context.WithoutCancel(b.Context()), pod, client.DryRunAll)
}

// TestAQuotaOfLimitsAdmitsTheJobsOfAClusterThatHasLimits: nobody can give resources to a Backup that the suite requests, nor to a
// verification whose cluster is gone, and a verification that never runs holds up all others of its repository.
func TestAQuotaOfLimitsAdmitsTheJobsOfAClusterThatHasLimits(t *testing.T) {
	b := newBed(t)
	b.make(b.repository("minio"))
	shop := b.cluster("shop", func(c *v1alpha1.PostgresCluster) {
		c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	})
	request := v1alpha1.BackupRequest{Cluster: "shop", ClusterUID: shop.UID, Token: "t", Purpose: v1alpha1.PurposeFinal}
	b.say(shop, func(status *v1alpha1.PostgresClusterStatus) { status.BackupRequest = &request })
	jobs := map[string]*batchv1.Job{"the requested Backup": b.job(protocol.BackupName(request) + "-backup")}
	b.end(jobs["the requested Backup"], success())

	backup := &v1alpha1.Backup{}
	backup.Name, backup.Namespace = protocol.BackupName(request), b.namespace
	b.eventually(backup, "success", func() bool {
		return meta.IsStatusConditionTrue(backup.Status.Conditions, v1alpha1.ConditionSucceeded)
	})
	verify := func(token string) *batchv1.Job {
		b.change(backup, func() { backup.Spec.Verify = &v1alpha1.BackupVerify{Token: token} })
		return b.verification(backup)
	}
	first := verify("a")
	jobs["its verification"] = first
	b.end(first, result())
	b.eventuallyGone(&batchv1.Job{ObjectMeta: first.ObjectMeta})
	b.say(shop, func(status *v1alpha1.PostgresClusterStatus) { status.BackupRequest = nil })
	b.remove(shop)
	b.eventuallyGone(shop)
	jobs["its verification, once the cluster is gone"] = verify("b")

	b.limited()
	for what, job := range jobs {
		if err := b.admits(job.Spec.Template.Spec); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
