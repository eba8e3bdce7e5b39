package config

import (
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/objstore"
)

func TestTheOpenSegmentIsShippedOnlyWhereThatIsAskedFor(t *testing.T) {
	seconds := int32(5)
	for name, test := range map[string]struct {
		spec *v1alpha1.ArchiveSpec
		want int32
	}{
		"it is asked for":  {&v1alpha1.ArchiveSpec{WALShipIntervalSeconds: &seconds}, 5},
		"it is not":        {&v1alpha1.ArchiveSpec{}, 0},
		"nothing is asked": {nil, 0},
	} {
		cluster := &v1alpha1.PostgresCluster{}
		cluster.Spec.Archive = test.spec
		got := Agent(cluster, 1, &objstore.Config{}).Archive
		if got == nil || got.WALShipIntervalSeconds != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
