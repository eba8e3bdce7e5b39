package instances

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestWhatThereIsToProtectFromEvictions(t *testing.T) {
	ready := func(o *observed.Cluster, ordinal int, since time.Duration) {
		o.Pods[ordinal].Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(o.Now.Add(-since)),
		}}
	}
	for name, test := range map[string]struct {
		ready map[int]time.Duration
		want  bool
	}{
		"nothing is ready":                    {nil, false},
		"one has just become ready":           {map[int]time.Duration{0: time.Second}, false},
		"one has, and the others take long":   {map[int]time.Duration{0: 2 * time.Minute}, true},
		"one is not ready yet":                {map[int]time.Duration{0: time.Second, 1: time.Second}, false},
		"all are ready":                       {map[int]time.Duration{0: time.Second, 1: 0, 2: 0}, true},
		"one is lost after it was ready long": {map[int]time.Duration{1: time.Hour, 2: time.Hour}, true},
	} {
		o := observedtest.Trio(func(o *observed.Cluster) {
			for i := range o.Pods {
				o.Pods[i].Status.Conditions = nil
			}
			for ordinal, since := range test.ready {
				ready(o, ordinal, since)
			}
		})
		if Protectable(o) != test.want {
			t.Errorf("%s: %v", name, Protectable(o))
		}
	}
}
