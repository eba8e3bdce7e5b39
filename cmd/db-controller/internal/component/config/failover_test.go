package config

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestAgentsAreToldOfFailoverOnlyWhatIsNotTheDefault(t *testing.T) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	zone := metav1.NewTime(noon.In(time.FixedZone("CET", 3600)))
	for name, c := range map[string]struct {
		spec    *v1alpha1.Failover
		leaving string
		want    *agentapi.Failover
	}{
		"nothing":                             {nil, "", nil},
		"the default":                         {&v1alpha1.Failover{Profile: v1alpha1.FailoverDefault, Instances: []v1alpha1.FailoverInstance{{Name: "shop-1", Priority: ptr.To[int32](50)}}}, "", nil},
		"other limits":                        {&v1alpha1.Failover{Profile: v1alpha1.FailoverPatient}, "", &agentapi.Failover{Profile: agentapi.ProfilePatient}},
		"no renewals":                         {&v1alpha1.Failover{Renewal: v1alpha1.RenewalMembers}, "", &agentapi.Failover{Renewal: agentapi.RenewalMembers}},
		"renewals":                            {&v1alpha1.Failover{Renewal: v1alpha1.RenewalAPIServer}, "", nil},
		"a pause":                             {&v1alpha1.Failover{PausedUntil: &zone}, "", &agentapi.Failover{PausedUntil: noon}},
		"isolation":                           {&v1alpha1.Failover{IsolationTimeoutSeconds: 60}, "", &agentapi.Failover{IsolationSeconds: 60}},
		"a fenced one":                        {&v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-2"}}, "", &agentapi.Failover{Fenced: []string{"shop-2"}}},
		"one that leaves its volume":          {nil, "shop-1", &agentapi.Failover{Fenced: []string{"shop-1"}}},
		"one that leaves beside a fenced one": {&v1alpha1.Failover{Fenced: []v1alpha1.InstanceName{"shop-2"}}, "shop-1", &agentapi.Failover{Fenced: []string{"shop-2", "shop-1"}}},
		"who is wanted":                       {&v1alpha1.Failover{Instances: []v1alpha1.FailoverInstance{{Name: "shop-1", Priority: ptr.To[int32](0)}, {Name: "shop-2", Never: true}}}, "", &agentapi.Failover{Priorities: map[string]int{"shop-1": 0}, Never: []string{"shop-2"}}},
	} {
		if got := failover(c.spec, c.leaving); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
