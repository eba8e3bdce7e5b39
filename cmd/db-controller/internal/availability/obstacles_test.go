package availability_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/agentclient"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/workload"
)

// refusing has Kubernetes refuse the pod of shop-1.
func refusing(why string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		observedtest.Lose(o, "shop-1")
		o.StatefulSet().UID = "set"
		o.Refusals = map[types.UID]workload.Refusals{"set": {{Reason: "FailedCreate", Message: "create Pod shop-1 in StatefulSet shop failed error: " + why}}}
	}
}

func TestAnInstanceWhosePodIsRefusedSaysWhyAndWhatToDo(t *testing.T) {
	const quota, context = `pods "shop-1" is forbidden: failed quota: all: must specify limits.cpu for: postgres`, `pods "shop-1" is forbidden: unable to validate against any security context constraint`
	for name, c := range map[string]struct {
		change       func(*observed.Cluster)
		reason, want string
	}{
		"nothing is known": {func(o *observed.Cluster) { observedtest.Lose(o, "shop-1") }, v1alpha1.ReasonStarting, "Pod shop-1 is being created."},
		"a quota":          {refusing(quota), v1alpha1.ReasonPodRefused, "Kubernetes refuses to create pod shop-1: " + quota + ". Set spec.resources.limits (cpu and memory), or give the namespace a LimitRange with default limits."},
		"OpenShift":        {refusing(context), v1alpha1.ReasonPodRefused, "create a new PostgresCluster with that field, and move the data with a Restore (docs/openshift.md)."},
		"OpenShift, at first": {func(o *observed.Cluster) {
			refusing(context)(o)
			o.Cluster.Status.SystemIdentifier = ""
		}, v1alpha1.ReasonPodRefused, "delete PostgresCluster shop and create it again with that field (docs/openshift.md)."},
		"OpenShift, although the namespace decides": {func(o *observed.Cluster) {
			refusing(context)(o)
			o.Cluster.Spec.RunAs = &v1alpha1.RunAs{FromNamespace: true}
		}, v1alpha1.ReasonPodRefused, "Give the ServiceAccount of the pod security context constraints that allow it"},
		"its volume is on its way out": {func(o *observed.Cluster) {
			refusing("persistentvolumeclaim is being deleted")(o)
			o.Claim(1).DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
		}, v1alpha1.ReasonStarting, "PersistentVolumeClaim data-shop-1 has to be deleted completely"},
	} {
		reason, message := availability.InstanceTrouble(observedtest.Trio(c.change), 1)
		if reason != c.reason || !strings.Contains(message, c.want) {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
	}
}

func TestAVolumeWithoutAStorageClassSaysWhatToDo(t *testing.T) {
	unschedulable := func(o *observed.Cluster) {
		o.Pod(1).Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
		}}}
		o.Claim(1).Status.Phase = corev1.ClaimPending
	}
	const mark, again = "Mark a class as default: the claim then uses it automatically.", "create it again with spec.storage.storageClassName"
	for name, c := range map[string]struct {
		change      func(*observed.Cluster)
		class, anew bool
	}{
		"it has run":             {func(*observed.Cluster) {}, true, false},
		"there is no data":       {func(o *observed.Cluster) { o.Cluster.Status.SystemIdentifier = "" }, true, true},
		"the claim has a class":  {func(o *observed.Cluster) { o.Claim(1).Spec.StorageClassName = ptr.To("fast") }, false, false},
		"spec wants none at all": {func(o *observed.Cluster) { o.Claim(1).Spec.StorageClassName = ptr.To("") }, false, false},
		"it has a volume":        {func(o *observed.Cluster) { o.Claim(1).Status.Phase = corev1.ClaimBound }, false, false},
	} {
		reason, message := availability.InstanceTrouble(observedtest.Trio(func(o *observed.Cluster) { unschedulable(o); c.change(o) }), 1)
		if reason != v1alpha1.ReasonUnschedulable || strings.Contains(message, mark) != c.class || strings.Contains(message, again) != c.anew || strings.Contains(message, "unbound") == c.class {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
	}
}

func TestAnAgentThatStaysSilentSaysWhatMayBeInTheWay(t *testing.T) {
	const policy, other = "set spec.networkPolicy: {}, or allow port 8443 from the db-controller (docs/networking.md).", "If NetworkPolicies select the db-controller"
	silent := func(silence agentclient.Silence) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			observedtest.Unready(o, 1)
			delete(o.Agents, "shop-1")
			o.Silent = map[string]agentclient.Silence{"shop-1": silence}
		}
	}
	long := agentclient.Silence{Since: observedtest.Noon.Add(-time.Minute), Error: "10.0.0.7:8443 doesn't answer in time", Unreached: true}
	short, strange := long, long
	short.Since = observedtest.Noon.Add(-59 * time.Second)
	strange.Error, strange.Unreached = "x509: certificate has expired", false
	for name, c := range map[string]struct {
		change       func(*observed.Cluster)
		reason, want string
	}{
		"for a moment": {silent(short), v1alpha1.ReasonStarting, "Pod shop-1 runs; its agent doesn't respond yet."},
		"for a minute": {silent(long), v1alpha1.ReasonAgentUnreachable, "Pod shop-1 runs; its agent doesn't respond. The last error: 10.0.0.7:8443 doesn't answer in time. If NetworkPolicies select these pods, " + policy},
		"it was heard": {func(o *observed.Cluster) { silent(strange)(o) }, v1alpha1.ReasonAgentUnreachable, "The last error: x509: certificate has expired."},
		"spec has one": {func(o *observed.Cluster) { silent(long)(o); o.Cluster.Spec.NetworkPolicy = &v1alpha1.NetworkPolicy{} }, v1alpha1.ReasonAgentUnreachable, other},
		"its node died": {func(o *observed.Cluster) {
			silent(long)(o)
			o.Pod(1).Status.Conditions = append(o.Pod(1).Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
		}, v1alpha1.ReasonAgentUnreachable, "Node w1 of the pod doesn't respond, either."},
	} {
		o := observedtest.Trio(c.change)
		reason, message := availability.InstanceTrouble(o, 1)
		if reason != c.reason || !strings.HasSuffix(message, c.want) && !strings.Contains(message, other) {
			t.Errorf("%s: %s: %s", name, reason, message)
		}
		if name == "it was heard" && strings.Contains(message, "NetworkPolic") {
			t.Errorf("%s: %s", name, message)
		}
	}
	ready := observedtest.Trio(func(o *observed.Cluster) {
		silent(long)(o)
		o.Pod(1).Status.Conditions[0].Status = corev1.ConditionTrue
	})
	if why := availability.Unsettled(ready, 1); why != "The agent of shop-1 doesn't respond. The last error: 10.0.0.7:8443 doesn't answer in time. If NetworkPolicies select these pods, "+policy {
		t.Error(why)
	}
}
