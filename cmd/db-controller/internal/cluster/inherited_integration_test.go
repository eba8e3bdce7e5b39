//go:build integration

package cluster

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// TestVolumesSecretsAndServicesInheritWhatIsAskedFor from the labels of their cluster, follow them, and give them back; no pod is replaced.
func TestVolumesSecretsAndServicesInheritWhatIsAskedFor(t *testing.T) {
	l := newLab(t)
	l.bound()
	shop := l.shop(func(c *v1alpha1.PostgresCluster) {
		c.Spec.Instances = 3
		c.Labels = map[string]string{"team": "payments"}
		c.Spec.InheritedMetadata = &v1alpha1.InheritedMetadata{Labels: []v1alpha1.MetadataName{"team"}}
	})
	l.awaitReplicated(shop)
	before := l.podUIDs(3)
	heirs := map[string]client.Object{
		"shop-app": &corev1.Secret{}, "shop-ca": &corev1.Secret{}, "shop-instance": &corev1.Secret{}, "shop-config": &corev1.ConfigMap{},
		"shop-rw": &corev1.Service{}, "data-shop-0": &corev1.PersistentVolumeClaim{}, "data-shop-2": &corev1.PersistentVolumeClaim{},
	}
	await := func(team string) {
		t.Helper()
		for name, object := range heirs {
			l.eventually(name+" to have the team "+team, func() bool { return l.there(object, name) && object.GetLabels()["team"] == team })
		}
	}
	await("payments")
	l.change(shop, func() { shop.Labels["team"] = "orders" })
	await("orders")
	l.change(shop, func() { shop.Spec.InheritedMetadata = nil })
	await("")
	l.awaitReplicated(shop)
	if now := l.podUIDs(3); !maps.Equal(now, before) {
		t.Errorf("pods were replaced: %v, before %v", now, before)
	}
}
