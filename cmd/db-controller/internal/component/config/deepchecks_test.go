package config

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAgentsAreToldOfDeepChecksOnlyWhatIsNotTheDefault(t *testing.T) {
	for name, c := range map[string]struct {
		spec *v1alpha1.DeepChecks
		want *agentapi.DeepChecks
	}{
		"nothing":     {nil, nil},
		"the default": {&v1alpha1.DeepChecks{}, nil},
		"suspended":   {&v1alpha1.DeepChecks{Suspend: true}, &agentapi.DeepChecks{Suspend: true}},
		"other times": {
			&v1alpha1.DeepChecks{Interval: &metav1.Duration{Duration: time.Hour}, IndexTimeout: &metav1.Duration{Duration: time.Minute}},
			&agentapi.DeepChecks{IntervalSeconds: 3600, IndexTimeoutSeconds: 60},
		},
	} {
		if got := deepChecks(c.spec); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
