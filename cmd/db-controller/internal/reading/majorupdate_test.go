package reading

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestWhatTheUpgradeControllerWillDoIsKnownInThePassThatSeesTheNewVersion(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) {
		o.Images = map[int32]string{17: "postgres:17", 18: "postgres:18"}
		o.Cluster.Spec.Version, o.Cluster.Spec.Updates = 18, &v1alpha1.Updates{Major: v1alpha1.UpdateAutomatic}
		o.Cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	})
	o.Cluster.Status.ObservedGeneration = o.Cluster.Generation - 1
	if said := majorUpdate(o, nil, nil); !strings.Contains(said, "Upgrade shop-to-18-check-") {
		t.Errorf("it says %q", said)
	}
	if o.Cluster.Status.ObservedGeneration == o.Cluster.Generation {
		t.Error("the status was changed by that")
	}
	o.Cluster.Spec.Updates = nil
	if said := majorUpdate(o, nil, nil); said != "" {
		t.Errorf("although a person decides it says %q", said)
	}
}
