//go:build integration

package cluster

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// refuse says in an event of an object, as the controllers of Kubernetes do, why it has no pod.
func (s *standIn) refuse(ctx context.Context, owner client.Object, message string) {
	gvk, err := s.client.GroupVersionKindFor(owner)
	if err != nil {
		return
	}
	kind := gvk.Kind
	_ = s.client.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.ns, Name: owner.GetName() + "." + strings.ToLower(kind)},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: s.ns, Name: owner.GetName(), UID: owner.GetUID()},
		Reason:         "FailedCreate", Message: message, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
	})
}

// asItsAccount has the controller do no more than the chart allows.
func (l *lab) asItsAccount() {
	l.Helper()
	l.stop()
	l.account = apiserver.As(l.T, "db-controller")
	l.agent.Image = "registry.local/howdah/agent:1"
	l.startController()
}

const noLimits = `is forbidden: failed quota: all: must specify limits.cpu for: postgres; limits.memory for: postgres`

func TestANamespaceThatRefusesTheInitJobIsQuoted(t *testing.T) {
	l := newLab(t)
	l.asItsAccount()
	l.kube.set(func(s *standIn) { s.refused = map[string]string{"shop-init": `pods "shop-init-x" ` + noLimits} })
	shop := l.shop(nil)
	message := l.awaitCondition(shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPodRefused)
	if want := `Kubernetes refuses to create the pod of the Job: pods "shop-init-x" ` + noLimits + ". Set spec.resources.limits "; !strings.HasPrefix(message, want) {
		t.Errorf("message: %s", message)
	}
	l.requests.reset()
	l.passes(shop, 5)
	if asked, list := l.requests.count("get events"); asked > 1 {
		t.Errorf("in 5 passes, events were read %d times:\n%s", asked, list)
	}
	l.kube.set(func(s *standIn) { s.refused = nil })
	l.awaitRunning(shop)
}

func TestANamespaceThatRefusesAnInstanceIsQuoted(t *testing.T) {
	l := newLab(t)
	l.asItsAccount()
	l.kube.set(func(s *standIn) { s.refused = map[string]string{"shop-1": `pods "shop-1" ` + noLimits} })
	shop := l.shop(nil)
	l.awaitRunning(shop)
	if asked, list := l.requests.count("get events"); asked > 0 {
		t.Errorf("events were read although no pod was missing for long:\n%s", list)
	}
	l.change(shop, func() { shop.Spec.Instances = 2 })
	l.eventually("the refusal is quoted", func() bool {
		message := l.awaitCondition(shop, v1alpha1.ConditionReplicated, metav1.ConditionFalse, v1alpha1.ReasonReplicaDown)
		return strings.HasPrefix(message, `Kubernetes refuses to create pod shop-1: pods "shop-1" `+noLimits+". Set spec.resources.limits ")
	})
	l.kube.set(func(s *standIn) { s.refused = nil })
	l.awaitReplicated(shop)
}
