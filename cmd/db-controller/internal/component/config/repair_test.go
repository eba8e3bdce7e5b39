package config

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAgentsAreToldOfRepairsOnlyWhatIsNotTheDefault(t *testing.T) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	from, until := metav1.NewTime(noon.In(time.FixedZone("CET", 3600))), metav1.NewTime(noon.Add(time.Hour))
	for name, c := range map[string]struct {
		spec *v1alpha1.Repair
		want *agentapi.Repair
	}{
		"nothing":     {nil, nil},
		"the default": {&v1alpha1.Repair{}, nil},
		"a pause":     {&v1alpha1.Repair{PausedFrom: &from, PausedUntil: &until}, &agentapi.Repair{PausedFrom: noon, PausedUntil: noon.Add(time.Hour)}},
		"kept copies": {&v1alpha1.Repair{KeepReplacedCopies: true}, &agentapi.Repair{KeepCopies: true}},
	} {
		if got := repair(c.spec); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
