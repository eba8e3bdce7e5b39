//go:build integration

package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// TestAWholeLifeFitsIntoTheBoundariesOfTheAccount has the controller act with its own account, under the roles and admission
// policies that the chart installs: whatever it needs beyond them would be refused.
func TestAWholeLifeFitsIntoTheBoundariesOfTheAccount(t *testing.T) {
	l := newLab(t)
	l.stop()
	l.agent, l.account = workload.Agent{Image: "registry.local/howdah/agent:1"}, apiserver.As(t, "db-controller")
	l.startController()
	l.node()
	l.create(repository(l.ns))
	l.create(credentials(l.ns))
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		archived(c)
		three(c)
		c.Spec.SuperuserAccess, c.Spec.Resources = true, resources("100m", "512Mi")
		c.Spec.Roles = []v1alpha1.Role{{Name: "web", Login: ptr.To(true), CertificateSecret: &v1alpha1.CertificateSecret{Name: "web-tls"}}}
		c.Spec.DeletionPolicy = v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false), Volumes: v1alpha1.VolumesDelete}
	})
	l.awaitReplicated(shop)
	l.eventually("the role has its certificate", func() bool { return l.there(&corev1.Secret{}, "web-tls") })

	pod, moreMemory := &corev1.Pod{}, resources("100m", "1Gi")
	l.change(shop, func() { shop.Spec.SuperuserAccess, shop.Spec.Resources = false, moreMemory })
	l.eventually("running pods get more memory", func() bool {
		return l.there(pod, "shop-0") && pod.Spec.Containers[0].Resources.Limits.Memory().Equal(*moreMemory.Limits.Memory())
	})
	l.eventually("the superuser's Secret goes", func() bool { return !l.there(&corev1.Secret{}, "shop-superuser") })
	l.scale(shop, 1)
	l.eventually("the others go", func() bool { return !l.there(&corev1.Pod{}, "shop-2") })

	l.beginDeletion(shop)
	l.awaitGone(shop)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns}}
	if l.there(claim, "data-shop-0") && claim.DeletionTimestamp.IsZero() {
		t.Error("the volume is still there")
	}
}
