package scaling

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestPodsWithoutAStatefulSetKeepTheirNumber(t *testing.T) {
	o := observedtest.Bound(func(o *observed.Cluster) {
		o.Cluster.Spec.Instances = 1
		delete(o.Live, observed.Key("StatefulSet", "shop"))
	})
	if !o.Orphaned() || Replicas(o) != 3 {
		t.Errorf("orphaned %v, %d replicas", o.Orphaned(), Replicas(o))
	}
	for i := range o.Pods {
		o.Pods[i].DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
	}
	if o.Orphaned() {
		t.Error("pods that end need no StatefulSet")
	}
}
