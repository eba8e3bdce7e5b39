//go:build integration

package cluster

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
)

// heldUp is a db-controller that looks at the cluster now, and acts only when the test lets it.
func (l *lab) heldUp(shop *v1alpha1.PostgresCluster) (*Reconciler, *observed.Cluster) {
	l.Helper()
	r := New(manager.Dependencies{
		Client: l.Client, Live: l.Client, Now: l.clock.now, Agent: l.agent, Images: manager.Images{17: "postgres:17"},
	}, l.kube, l.rollouts)
	var o *observed.Cluster
	l.eventually("it sees the cluster as it is, while another one writes its status", func() (seen bool) {
		l.get(shop)
		var err error
		if o, err = r.observe(l.Context(), shop.DeepCopy()); err != nil && !errors.Is(err, flow.ErrStale) {
			l.Fatal(err)
		}
		return err == nil
	})
	return r, o
}

func TestADBControllerThatWasHeldUpStartsNothingBesideAJob(t *testing.T) {
	for name, asleep := range map[string]bool{"it was about to wake the cluster": true, "it was about to change a running one": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			shop := l.shop(nil)
			l.awaitRunning(shop)
			if asleep {
				l.change(shop, func() { shop.Spec.Hibernate = true })
				l.eventually("it sleeps", func() bool { return !l.there(&corev1.Pod{}, "shop-0") })
				l.settle()
			}
			former, o := l.heldUp(shop)
			o.Cluster.Spec.Hibernate = false // as it was at that moment
			o.Cluster.Status.Image = "postgres:17.1"

			upgrade := l.upgrade("to-18", shop)
			l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
			outcome := former.parts().instances.EnsureStatefulSet(t.Context(), o)
			set := &appsv1.StatefulSet{}
			if !l.there(set, "shop") || *set.Spec.Replicas != 0 || outcome.Err == nil {
				t.Errorf("%d instances are started: %+v", *set.Spec.Replicas, outcome)
			}
			if l.settle(); l.there(&corev1.Pod{}, "shop-0") {
				t.Error("PostgreSQL was started beside the Job")
			}
		})
	}
}

func TestADBControllerThatSawNoStatefulSetCreatesNoneBesideAJob(t *testing.T) {
	l := newLab(t)
	shop := l.shop(nil)
	l.awaitRunning(shop)
	l.change(shop, func() { shop.Spec.Hibernate = true })
	l.eventually("it sleeps", func() bool { return !l.there(&corev1.Pod{}, "shop-0") })
	l.settle()
	set := &appsv1.StatefulSet{}
	if !l.there(set, "shop") {
		t.Fatal("there is no StatefulSet")
	}
	if err := l.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	former, o := l.heldUp(shop)
	o.Cluster.Spec.Hibernate = false
	upgrade := l.upgrade("to-18", shop)
	l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
	outcome := former.parts().instances.EnsureStatefulSet(t.Context(), o)
	if !l.there(set, "shop") || *set.Spec.Replicas != 0 || outcome.Err == nil {
		t.Errorf("%d instances are started: %+v", *set.Spec.Replicas, outcome)
	}
	if l.settle(); l.there(&corev1.Pod{}, "shop-0") {
		t.Error("PostgreSQL was started beside the Job")
	}
}
