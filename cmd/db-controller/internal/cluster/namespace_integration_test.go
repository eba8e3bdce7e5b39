//go:build integration

package cluster

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// deleteNamespace does what Kubernetes' namespace controller does: nothing can be created from now on, and everything is deleted, in no
// particular order.
func (l *lab) deleteNamespace() {
	l.Helper()
	if err := l.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.ns}}); err != nil {
		l.Fatal(err)
	}
	for _, kind := range []client.Object{
		&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &coordinationv1.Lease{},
		&discoveryv1.EndpointSlice{}, &policyv1.PodDisruptionBudget{}, &batchv1.Job{}, &appsv1.StatefulSet{}, &corev1.Pod{},
		&corev1.PersistentVolumeClaim{}, &v1alpha1.Upgrade{}, &v1alpha1.Backup{}, &v1alpha1.PostgresCluster{}, &v1alpha1.BackupRepository{},
	} {
		if err := l.DeleteAllOf(context.Background(), kind, client.InNamespace(l.ns)); err != nil {
			l.Fatalf("delete all %T: %v", kind, err)
		}
	}
}

// TestTheDeletionOfANamespaceEnds: neither the final backup nor what the cluster would continue with until then can be created any more.
func TestTheDeletionOfANamespaceEnds(t *testing.T) {
	const finalizer = "example.com/upgrade"
	for name, c := range map[string]struct{ locked, archived bool }{
		"of a cluster with a final backup": {false, true}, "during a lock": {true, false}, "during a lock, before the final backup": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			var shop *v1alpha1.PostgresCluster
			if c.archived {
				shop = l.archivedShop()
			} else {
				shop = l.shop(nil)
				l.awaitRunning(shop)
			}
			upgrade := &v1alpha1.Upgrade{}
			if c.locked {
				upgrade = l.upgrade("to-18", shop)
				l.change(upgrade, func() { upgrade.Finalizers = []string{finalizer} })
				l.awaitAnswer(shop, upgrade, v1alpha1.VolumeLockGranted)
			}
			l.deleteNamespace()
			if c.locked { // as the upgrade-controller does
				l.say(upgrade, func() { upgrade.Status.VolumeLockRequest = nil })
				l.eventually("the volumes are returned", func() bool {
					return !l.there(shop, "shop") || len(shop.Status.VolumeLocks) == 0
				})
				l.change(upgrade, func() { upgrade.Finalizers = nil })
			}
			l.awaitGone(shop)
		})
	}
}
