package availability_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestAPodThatWouldNotEndIsNamed(t *testing.T) {
	deletedSince := func(ago time.Duration) func(*observed.Cluster) {
		return func(o *observed.Cluster) { o.Pods[2].DeletionTimestamp = &metav1.Time{Time: o.Now.Add(-ago)} }
	}
	containers := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	for name, c := range map[string]struct {
		change      func(*observed.Cluster)
		unstoppable string
		givenUp     bool
	}{
		"all run":               {nil, "", false},
		"one is being deleted":  {deletedSince(0), "Pod shop-2 is being deleted;", false},
		"one should have ended": {deletedSince(time.Minute), "Pod shop-2 is being deleted;", false},
		"one never ends":        {deletedSince(3 * time.Minute), "Pod shop-2 is being deleted;", true},
		"one is not ready":      {func(o *observed.Cluster) { o.Pods[2].Status.Conditions[0].Status = corev1.ConditionFalse }, "", false},
		"the node of one is lost": {func(o *observed.Cluster) {
			o.Pods[2].Status.Conditions[0].Status = corev1.ConditionFalse
			o.Pods[2].Status.Conditions = append(o.Pods[2].Status.Conditions, containers)
		}, "Node w1 of pod shop-2 doesn't respond", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := observedtest.Trio(c.change)
			if got := availability.Unstoppable(o); !strings.HasPrefix(got, c.unstoppable) || (got == "") != (c.unstoppable == "") {
				t.Errorf("unstoppable: %q", got)
			}
			if got := availability.NeverEnds(o); (got != "") != c.givenUp {
				t.Errorf("given up: %q", got)
			}
		})
	}
}
