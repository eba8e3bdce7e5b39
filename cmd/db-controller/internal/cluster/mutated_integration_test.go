//go:build integration

package cluster

import (
	"context"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// mutateJobs has the templates of Jobs of the namespace changed at their creation: resources and tolerations, as GKE's Autopilot does, and
// the image and its Secret, as a policy of Kyverno may.
func (l *lab) mutateJobs() {
	l.Helper()
	fail, scope := admissionv1.Fail, admissionv1.NamespacedScope
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: l.ns}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: l.ns}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}, Scope: &scope},
			}}},
		},
		FailurePolicy: &fail, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: `[
			JSONPatch{op: "add", path: "/spec/template/spec/containers/0/resources", value: {"limits": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"}}},
			JSONPatch{op: "add", path: "/spec/template/spec/containers/0/image", value: "mirror.example/" + object.spec.template.spec.containers[0].image},
			JSONPatch{op: "add", path: "/spec/template/spec/tolerations", value: [{"key": "example.com/arch", "operator": "Exists"}]},
			JSONPatch{op: "add", path: "/spec/template/spec/imagePullSecrets", value: [{"name": "mirror"}]}
		]`}}},
	}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: l.ns}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: l.ns}}
	for _, object := range []client.Object{policy, binding} {
		l.create(object)
		l.Cleanup(func() { _ = l.Delete(context.Background(), object) })
	}
	l.eventually("the policy is in effect", func() bool {
		probe := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "probe"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
		}}}
		return l.Create(context.Background(), probe, client.DryRunAll) == nil && len(probe.Spec.Template.Spec.Tolerations) > 0
	})
}

func TestAnInitJobThatAWebhookHasChangedIsCreatedAgainOnlyWhenSpecChanges(t *testing.T) {
	l := newLab(t)
	l.mutateJobs()
	l.kube.set(func(s *standIn) { s.initRuns = true })
	shop := l.shop(func(c *v1alpha1.PostgresCluster) { c.Spec.Image = "postgres:17.5" })
	job := &batchv1.Job{}
	l.eventually("the init Job is created", func() bool { return l.there(job, "shop-init") })
	if pod := job.Spec.Template.Spec; pod.Containers[0].Image != "mirror.example/postgres:17.5" || pod.Containers[0].Resources.Limits.StorageEphemeral().IsZero() {
		t.Fatalf("it is as it was asked for: %+v", pod.Containers[0])
	}
	first := job.UID
	for range 10 { // each of these is reason for a pass
		l.change(shop, func() { metav1.SetMetaDataAnnotation(&shop.ObjectMeta, "example.com/now", time.Now().String()) })
		time.Sleep(100 * time.Millisecond)
	}
	l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInitializing)
	if !l.there(job, "shop-init") || job.UID != first || job.DeletionTimestamp != nil {
		t.Error("it was created again")
	}
	l.change(shop, func() { shop.Spec.Image = "postgres:17.6" })
	l.eventually("it is created again in the other image", func() bool {
		return l.there(job, "shop-init") && job.UID != first && job.Spec.Template.Spec.Containers[0].Image == "mirror.example/postgres:17.6"
	})
	l.endInit()
	l.awaitRunning(shop)
}
