package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

func TestAnObjectIsSettledAsLongAsNeitherSideChanges(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"}}
	object := func(uid types.UID, version, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: uid, ResourceVersion: version}, Data: map[string]string{"a": value}}
	}
	markFor := func(desired string, live client.Object) mark {
		t.Helper()
		m, err := markOf(object("", "", desired), live)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	s := &Settled{}
	s.note(cluster, "ConfigMap/shop", markFor("x", object("u", "7", "x")))
	for name, c := range map[string]struct {
		key     string
		mark    mark
		settled bool
	}{
		"nothing has changed":  {"ConfigMap/shop", markFor("x", object("u", "7", "x")), true},
		"another is desired":   {"ConfigMap/shop", markFor("y", object("u", "7", "x")), false},
		"it was written since": {"ConfigMap/shop", markFor("x", object("u", "8", "x")), false},
		"it was replaced":      {"ConfigMap/shop", markFor("x", object("v", "7", "x")), false},
		"another object":       {"ConfigMap/shop-config", markFor("x", object("u", "7", "x")), false},
		"it isn't there":       {"ConfigMap/shop", markFor("x", nil), false},
	} {
		if got := s.is(cluster, c.key, c.mark); got != c.settled {
			t.Errorf("%s: it is settled: %v", name, got)
		}
	}
	s.note(cluster, "ConfigMap/none", markFor("x", nil))
	if s.is(cluster, "ConfigMap/none", markFor("x", nil)) {
		t.Error("an object that isn't there counts as settled")
	}
	s.Forget(client.ObjectKeyFromObject(cluster))
	if s.is(cluster, "ConfigMap/shop", markFor("x", object("u", "7", "x"))) {
		t.Error("a deleted cluster is remembered")
	}
}
