//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// TestAQuotaThatRefusesAJobUnderALockIsNamedAndLeadsBackOrOn: Kubernetes says it in an event, while the cluster is down. Everything else
// gets along with a quota of CPU and memory.
func TestAQuotaThatRefusesAJobUnderALockIsNamedAndLeadsBackOrOn(t *testing.T) {
	onlyInFull(t, "what a refused Job says has a test of its own")
	t.Parallel()
	b := newBed(t, "minio")
	amount := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceRequestsCPU: resource.MustParse(cpu), corev1.ResourceRequestsMemory: resource.MustParse(memory), corev1.ResourceLimitsMemory: resource.MustParse(memory),
		}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: b.Meta("all"), Spec: corev1.ResourceQuotaSpec{Hard: amount("4", "8Gi")}}
	b.Must(b.Create(t.Context(), quota))
	shop := b.NewCluster("shop", 18)
	some := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	shop.Spec.Resources = v1alpha1.Resources{Requests: some, Limits: corev1.ResourceList{corev1.ResourceMemory: some[corev1.ResourceMemory]}}
	b.Must(b.Create(t.Context(), shop))
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	b.Backup("base", "shop")

	b.Merge(quota, `{"spec":{"hard":{"requests.memory":"1Mi"}}}`)
	restore := b.inPlace("back", &v1alpha1.RestoreTarget{Immediate: true})
	restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}
	b.Must(b.Create(t.Context(), restore))
	began := time.Now()
	b.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonPodRefused, "exceeded quota")
	if said := time.Since(began); said > time.Minute {
		t.Errorf("it was said after %s", said)
	}
	b.Merge(quota, `{"spec":{"hard":{"requests.memory":"8Gi"}}}`)
	b.AwaitTrue(restore, v1alpha1.ConditionRestored)
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
}

// TestAnUpgradeAndARestoreEndBesideSidecarsThatDoNot: a policy injects one into every pod, as a service mesh does, that runs until it is
// told to end.
func TestAnUpgradeAndARestoreEndBesideSidecarsThatDoNot(t *testing.T) {
	onlyInFull(t, "Jobs with an injected container have tests of their own")
	t.Parallel()
	b := newBed(t, "minio")
	b.inject("mesh")
	shop := b.NewCluster("shop", 15)
	b.Must(b.Create(t.Context(), shop))
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 1000) AS n")
	before := b.SQL("shop", sum)
	b.Backup("base", "shop")
	b.SQL("shop", "DELETE FROM t WHERE n > 500")
	restore := b.inPlace("back", &v1alpha1.RestoreTarget{Immediate: true})
	restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionRestored)
	b.decides(restore, v1alpha1.DecisionConfirm)
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	if got := b.SQL("shop", sum); got != before {
		t.Errorf("restored it has %s, not %s", got, before)
	}
	upgrade := b.upgradeTo("up", 18, false)
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	if got := b.SQL("shop", sum); got != before {
		t.Errorf("upgraded it has %s, not %s", got, before)
	}
	b.isMeshed("shop-0", "mesh")
}

// inject has every pod of the namespace get a container that only ends when it is told to.
func (b *bed) inject(container string) {
	b.Helper()
	const label = "example.com/mesh"
	name := b.Namespace
	b.Merge(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, label, name))
	fail, scope := admissionv1.Fail, admissionv1.NamespacedScope
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: name}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &scope},
			}}},
		},
		FailurePolicy: &fail, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: fmt.Sprintf(
			`[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: %q, image: object.spec.containers[0].image,
				command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]}}]`, container)}}},
	}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}}
	for _, object := range []client.Object{policy, binding} {
		b.Must(b.Create(b.Context(), object))
		b.T.Cleanup(func() { _ = b.Delete(context.WithoutCancel(b.Context()), object) })
	}
	probe := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: b.Meta("probe"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}}}
	}
	b.Await(policy, "to be in effect", func() bool {
		pod := probe()
		return b.Create(b.Context(), pod, client.DryRunAll) == nil && len(pod.Spec.Containers) == 2
	})
}

// isMeshed makes sure that something was injected.
func (b *bed) isMeshed(pod, container string) {
	b.Helper()
	for _, c := range b.Pod(pod).Spec.Containers {
		if c.Name == container {
			return
		}
	}
	b.Errorf("%s has no container %s", pod, container)
}

// TestATaintUnderALockIsToleratedAsByTheInstanceOrNamed is not parallel: it taints a node.
func TestATaintUnderALockIsToleratedAsByTheInstanceOrNamed(t *testing.T) {
	onlyInFull(t, "the placement of Jobs has tests of its own")
	place.NeedKube(t)
	b := newBed(t, "minio")
	const key = "example.com/dedicated"
	shop := b.NewCluster("shop", 15)
	shop.Spec.Scheduling.Tolerations = []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}
	b.Must(b.Create(t.Context(), shop))
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	untaint := b.taint(b.Pod("shop-0").Spec.NodeName, key)
	upgrade := b.upgradeTo("up", 18, false)
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	untaint()

	b.Backup("base", "shop")
	b.Merge(shop, `{"spec":{"version":18,"scheduling":{"tolerations":null}}}`)
	b.AwaitTrue(shop, v1alpha1.ConditionUpToDate)
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	untaint = b.taint(b.Pod("shop-0").Spec.NodeName, key)
	restore := b.inPlace("back", &v1alpha1.RestoreTarget{Immediate: true})
	restore.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}}
	restore.Spec.MaxDowntime = &metav1.Duration{Duration: time.Minute}
	b.Must(b.Create(t.Context(), restore))
	b.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonRunning, "untolerated taint")
	b.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonMaxDowntimeExceeded, "")
	b.AwaitReason(shop, v1alpha1.ConditionReady, v1alpha1.ReasonUnschedulable, "untolerated taint")
	untaint()
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
}

// taint a node, so that nothing new is scheduled on it, until it is undone.
func (b *bed) taint(node, key string) (undo func()) {
	b.Helper()
	set := func(taints string) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":`+taints+`}}`))
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := b.Patch(context.WithoutCancel(b.Context()), object, patch); err != nil {
			b.Errorf("taints of node %s: %v", node, err)
		}
	}
	set(fmt.Sprintf(`[{"key":%q,"effect":"NoSchedule"}]`, key))
	undo = func() { set("null") }
	b.T.Cleanup(undo)
	return undo
}

// TestAnUpgradeEndsAlthoughTheNodeOfAReplicaIsLostUnderItsLock is not parallel: it breaks a node.
func TestAnUpgradeEndsAlthoughTheNodeOfAReplicaIsLostUnderItsLock(t *testing.T) {
	onlyInFull(t, "it breaks a node, and the tests of the controllers have lost pods and nodes")
	place.NeedKube(t)
	b := newBed(t, "minio")
	shop := b.replicated(15)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 1000) AS n")
	before, node := b.SQL("shop", sum), ""
	for _, instance := range shop.Status.Instances {
		if instance.Role == v1alpha1.RoleReplica {
			node = b.Pod(instance.Name).Spec.NodeName
		}
	}
	upgrade := b.upgradeTo("up", 18, false)
	b.Await(upgrade, "the cluster to be stopped", func() bool { return upgrade.Status.Previous != nil })
	start := func() { b.Kube("start-node", node) }
	b.T.Cleanup(start)
	b.Kube("kill-node", node)
	b.Await(shop, "the new version to serve", func() bool {
		c := place.Condition(shop, v1alpha1.ConditionReady)
		return shop.Status.MajorVersion == 18 && c != nil && c.Status == metav1.ConditionTrue
	})
	if got := b.SQL("shop", sum); got != before {
		t.Errorf("upgraded it has %s, not %s", got, before)
	}
	start()
	b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	b.awaitInstances(shop, 3)
	b.sameEverywhere(shop)
}
