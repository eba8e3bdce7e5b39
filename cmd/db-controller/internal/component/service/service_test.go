package service

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

func shop(services v1alpha1.Services) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"},
		Spec:       v1alpha1.PostgresClusterSpec{Services: services},
	}
}

func TestAServiceIsAsItsTemplateSays(t *testing.T) {
	for name, c := range map[string]struct {
		template v1alpha1.ServiceTemplate
		want     corev1.ServiceSpec
	}{
		"nothing is said": {v1alpha1.ServiceTemplate{}, corev1.ServiceSpec{Type: "ClusterIP"}},
		"a load balancer with all that it may have": {
			v1alpha1.ServiceTemplate{
				Type: "LoadBalancer", LoadBalancerClass: "example.com/nlb", ExternalTrafficPolicy: "Local",
				LoadBalancerSourceRanges: []v1alpha1.SourceRange{"10.0.0.0/8", "2001:db8::/32"},
			},
			corev1.ServiceSpec{
				Type: "LoadBalancer", LoadBalancerClass: ptr.To("example.com/nlb"), ExternalTrafficPolicy: "Local",
				LoadBalancerSourceRanges: []string{"10.0.0.0/8", "2001:db8::/32"},
			},
		},
		"a port of each node": {
			v1alpha1.ServiceTemplate{Type: "NodePort", ExternalTrafficPolicy: "Cluster"},
			corev1.ServiceSpec{Type: "NodePort", ExternalTrafficPolicy: "Cluster"},
		},
		"what the type has no use for": {
			v1alpha1.ServiceTemplate{Type: "ClusterIP", LoadBalancerClass: "x", ExternalTrafficPolicy: "Local", LoadBalancerSourceRanges: []v1alpha1.SourceRange{"10.0.0.0/8"}},
			corev1.ServiceSpec{Type: "ClusterIP"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Primary(shop(v1alpha1.Services{RW: c.template})).Spec
			if got.Type != c.want.Type || got.ExternalTrafficPolicy != c.want.ExternalTrafficPolicy ||
				ptr.Deref(got.LoadBalancerClass, "") != ptr.Deref(c.want.LoadBalancerClass, "") ||
				!slices.Equal(got.LoadBalancerSourceRanges, c.want.LoadBalancerSourceRanges) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTheLabelsOfHowdahStayWhateverATemplateSays(t *testing.T) {
	template := v1alpha1.ServiceTemplate{
		Labels:      map[string]v1alpha1.LabelValue{"team": "a", v1alpha1.LabelCluster: "other", v1alpha1.LabelManagedBy: "me"},
		Annotations: map[string]string{"example.com/a": "b"},
	}
	got := Primary(shop(v1alpha1.Services{RW: template}))
	want := map[string]string{"team": "a", v1alpha1.LabelCluster: "shop", v1alpha1.LabelManagedBy: "howdah", v1alpha1.LabelComponent: "access"}
	if !maps.Equal(got.Labels, want) || got.Annotations["example.com/a"] != "b" {
		t.Errorf("labels %v, annotations %v", got.Labels, got.Annotations)
	}
}

func TestEachServiceHasItsOwnTemplateAndTwoCanBeDisabled(t *testing.T) {
	services := v1alpha1.Services{
		RO: v1alpha1.OptionalService{Enabled: ptr.To(false)},
		R:  v1alpha1.OptionalService{ServiceTemplate: v1alpha1.ServiceTemplate{Type: "NodePort"}, Enabled: ptr.To(true)},
	}
	wanted, disabled := Optional(shop(services))
	if len(wanted) != 1 || wanted[0].Name != "shop-r" || wanted[0].Spec.Type != "NodePort" || !slices.Equal(disabled, []string{"shop-ro"}) {
		t.Errorf("wanted %v, disabled %v", wanted, disabled)
	}
	if primary := Primary(shop(services)); primary.Spec.Type != "ClusterIP" || primary.Spec.Selector != nil {
		t.Errorf("primary: %+v", primary.Spec)
	}
	if wanted, disabled := Optional(shop(v1alpha1.Services{})); len(wanted) != 2 || len(disabled) != 0 {
		t.Errorf("by default: wanted %v, disabled %v", wanted, disabled)
	}
}

// TestAnotherClassOfLoadBalancerIsReachedThroughNone: the API server refuses to change it.
func TestAnotherClassOfLoadBalancerIsReachedThroughNone(t *testing.T) {
	of := func(kind v1alpha1.ServiceType, class string) *corev1.Service {
		return Primary(shop(v1alpha1.Services{RW: v1alpha1.ServiceTemplate{Type: kind, LoadBalancerClass: class, Labels: map[string]v1alpha1.LabelValue{"a": "b"}}}))
	}
	for name, c := range map[string]struct {
		live, wanted *corev1.Service
		want         corev1.ServiceType
	}{
		"there is none yet":    {nil, of("LoadBalancer", "a"), "LoadBalancer"},
		"it is the same class": {of("LoadBalancer", "a"), of("LoadBalancer", "a"), "LoadBalancer"},
		"it is another class":  {of("LoadBalancer", "a"), of("LoadBalancer", "b"), "ClusterIP"},
		"it had no class":      {of("LoadBalancer", ""), of("LoadBalancer", "b"), "ClusterIP"},
		"it was none":          {of("ClusterIP", ""), of("LoadBalancer", "b"), "LoadBalancer"},
		"it is to be none":     {of("LoadBalancer", "a"), of("NodePort", ""), "NodePort"},
	} {
		next := workload.NextService(c.live, c.wanted)
		if next.Spec.Type != c.want || next.Labels["a"] != "b" || c.want == "ClusterIP" && next.Spec.LoadBalancerClass != nil {
			t.Errorf("%s: %+v", name, next.Spec)
		}
	}
}

func TestTheServicesForReadersLeadToNoDelayedReplica(t *testing.T) {
	cluster := shop(v1alpha1.Services{})
	wanted, _ := Optional(cluster)
	for _, s := range wanted {
		if _, limited := s.Spec.Selector[v1alpha1.LabelDelayed]; limited {
			t.Errorf("%s selects by a label that agents of an older version don't write", s.Name)
		}
	}
	cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-2"}}
	wanted, _ = Optional(cluster)
	for _, s := range wanted {
		if s.Spec.Selector[v1alpha1.LabelDelayed] != "false" {
			t.Errorf("%s selects %v", s.Name, s.Spec.Selector)
		}
	}
}

func TestAnAdditionalServiceLeadsToARoleOrToOneInstance(t *testing.T) {
	for name, c := range map[string]struct {
		service v1alpha1.AdditionalService
		label   string
		want    string
	}{
		"the primary":                   {v1alpha1.AdditionalService{Role: v1alpha1.ServicePrimary}, v1alpha1.LabelRole, "primary"},
		"replicas":                      {v1alpha1.AdditionalService{Role: v1alpha1.ServiceReplica}, v1alpha1.LabelRole, "replica"},
		"any":                           {v1alpha1.AdditionalService{Role: v1alpha1.ServiceAny}, v1alpha1.LabelRole, ""},
		"one instance":                  {v1alpha1.AdditionalService{Instance: "shop-1"}, "statefulset.kubernetes.io/pod-name", "shop-1"},
		"no delayed replica":            {v1alpha1.AdditionalService{Role: v1alpha1.ServiceAny}, v1alpha1.LabelDelayed, "false"},
		"a delayed replica by its name": {v1alpha1.AdditionalService{Instance: "shop-2"}, v1alpha1.LabelDelayed, ""},
	} {
		c.service.Name, c.service.Type = "reports", "NodePort"
		cluster := shop(v1alpha1.Services{Additional: []v1alpha1.AdditionalService{c.service}})
		cluster.Spec.DelayedReplicas = []v1alpha1.DelayedReplica{{Name: "shop-2"}}
		all := Selected(cluster)
		got := all[len(all)-1]
		if len(all) != 3 || got.Name != "shop-reports" || got.Spec.Selector[c.label] != c.want || got.Spec.Type != "NodePort" || got.Spec.Selector[v1alpha1.LabelCluster] != "shop" {
			t.Errorf("%s: %+v", name, got.Spec)
		}
	}
}
