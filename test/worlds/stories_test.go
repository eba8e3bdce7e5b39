package worlds

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// tell a story of a world without random faults, of a cluster of this many instances that is ready. Afterwards everything must come to rest.
func tell(t *testing.T, instances int32, story func(*World)) {
	t.Helper()
	bucket := buckettest.New(t, 4, 5, 6)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(buckettest.Minute(60)))
		w := newWorld(1, bucket)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.calm = true
		if instances == 1 {
			w.kube.nodes = w.kube.nodes[:1] // on which two pods may use one volume
		}
		w.people.begin()

		cluster := w.people.cluster()
		cluster.Spec.Instances, cluster.Spec.Synchronous = instances, nil
		_ = w.api.Update(ctx, cluster)
		w.control.start(ctx)
		w.until(t, "the cluster is ready", w.satisfied)
		w.people.fates["up"] = &fate{}
		story(w)
		if w.broken == "" {
			w.rest()
		}
		w.control.end()
		if w.broken != "" {
			t.Errorf("%s\n\n%s", w.broken, w.story(60))
		}
	})
}

// until something holds, everybody does what there is to do.
func (w *World) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 500 {
		if w.broken != "" || holds() {
			return
		}
		w.turn()
		if !holds() {
			w.pass(w.control.idle())
		}
	}
	t.Fatalf("%s: not reached\n%s", what, w.story(40))
}

func (w *World) upgradeTo18() {
	upgrade := &v1alpha1.Upgrade{Spec: v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: clusterName}, Version: 18}}
	upgrade.Namespace, upgrade.Name = namespace, "up"
	_ = w.api.Create(w.control.ctx, upgrade)
}

func (w *World) seen() *v1alpha1.Upgrade {
	upgrade := &v1alpha1.Upgrade{}
	_ = w.get("up", upgrade)
	return upgrade
}

// process of a controller.
func (w *World) process(name string) *process {
	for _, p := range w.control.processes {
		if p.name == name && !p.ghost {
			return p
		}
	}
	return nil
}

func TestWhoWasHeldUpStartsNoServerBesideAJob(t *testing.T) {
	tell(t, 1, func(w *World) {
		held := w.process(dbController)
		held.holdKind = "StatefulSet"
		w.people.changeParameters()
		w.until(t, "it is held up", func() bool { return held.held != nil })
		held.ghost, held.passes = true, 1
		w.control.launch(dbController, 0)
		w.upgradeTo18()
		w.until(t, "the Job works", func() bool {
			for _, worker := range w.kube.workers {
				if worker.volume != nil {
					return true
				}
			}
			return false
		})
		w.control.resume(held)
		w.kube.runSets()
		w.kube.schedule()
		w.kube.startPods()
		w.check()
	})
}

func TestDataThatHasServedIsNotTakenBackByWhoWasAway(t *testing.T) {
	tell(t, 1, func(w *World) {
		w.upgradeTo18()
		w.until(t, "it is handed over", func() bool { return w.seen().Status.Handover != nil })
		p := w.process(upgradeController)
		p.dead = true
		w.control.processes = without(w.control.processes, p)
		w.long(11 * time.Minute)
		pod := &corev1.Pod{}
		_ = w.get(clusterName+"-0", pod)
		_ = w.api.Delete(w.control.ctx, pod)
		w.kube.endPods()
		w.until(t, "the cluster isn't ready", func() bool {
			w.control.tell(true)
			return !meta.IsStatusConditionTrue(w.people.cluster().Status.Conditions, v1alpha1.ConditionReady)
		})
		w.control.launch(upgradeController, 0)
	})
}

func TestARollBackKnowsTheVolumeByMoreThanItsName(t *testing.T) {
	tell(t, 2, func(w *World) {
		w.upgradeTo18()
		w.until(t, "it is up, and both instances follow", func() bool { return w.seen().Status.CompletedAt != nil && w.satisfied() })
		pod := &corev1.Pod{}
		_ = w.get(clusterName+"-0", pod)
		_ = w.api.Delete(w.control.ctx, pod)
		w.kube.endPods()
		w.until(t, "the other is primary", func() bool { s := w.pg.of("shop-1"); return s != nil && s.leads && w.satisfied() })
		claim := &corev1.PersistentVolumeClaim{}
		_ = w.get("data-shop-0", claim)
		uid := claim.UID
		_ = w.api.Delete(w.control.ctx, claim)
		_ = w.get(clusterName+"-0", pod)
		_ = w.api.Delete(w.control.ctx, pod)
		w.until(t, "the volume is another one", func() bool {
			return w.get("data-shop-0", claim) == nil && claim.UID != uid && w.satisfied()
		})
		upgrade := w.seen()
		before := upgrade.DeepCopy()
		upgrade.Spec.Decision = v1alpha1.UpgradeRollBack
		w.people.undone[upgrade.Status.Plan.ToGeneration] = upgrade.Status.Plan.FromGeneration
		_ = w.api.Patch(w.control.ctx, upgrade, client.MergeFrom(before))
	})
}
