package inherited

import (
	"maps"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// given has the patch of an object be what the API server makes of it.
func given(object client.Object, patch map[string]any) {
	merge := func(current map[string]string, changes any) map[string]string {
		merged := maps.Clone(current)
		if merged == nil {
			merged = map[string]string{}
		}
		for name, value := range changes.(map[string]any) {
			if value == nil {
				delete(merged, name)
			} else {
				merged[name] = value.(string)
			}
		}
		return merged
	}
	object.SetLabels(merge(object.GetLabels(), patch["labels"]))
	object.SetAnnotations(merge(object.GetAnnotations(), patch["annotations"]))
}

func TestAnObjectInheritsWhatIsAskedForFollowsItAndGivesItBack(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Labels: map[string]string{"team": "payments", "tier": "gold", "private": "x"}, Annotations: map[string]string{"example.com/cost": "42"},
	}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop-rw", Labels: map[string]string{"howdah.dev/cluster": "shop", "theirs": "stays", "tier": "web"}}}
	settle := func(what string, wantLabels map[string]string, wantCost string) {
		t.Helper()
		if patch := patchOf(cluster, service); patch != nil {
			given(service, patch)
		}
		if again := patchOf(cluster, service); again != nil {
			t.Errorf("%s: it is written again: %v", what, again)
		}
		want := map[string]string{"howdah.dev/cluster": "shop", "theirs": "stays", "tier": "web"}
		maps.Copy(want, wantLabels)
		if !reflect.DeepEqual(service.Labels, want) || service.Annotations["example.com/cost"] != wantCost {
			t.Errorf("%s: it has %v and %v", what, service.Labels, service.Annotations)
		}
	}
	settle("nothing is asked for", nil, "")
	cluster.Spec.InheritedMetadata = &v1alpha1.InheritedMetadata{
		Labels: []v1alpha1.MetadataName{"team", "tier", "theirs", "missing"}, Annotations: []v1alpha1.MetadataName{"example.com/cost"},
	}
	settle("what is there already stays", map[string]string{"team": "payments"}, "42")
	cluster.Labels["team"], cluster.Annotations["example.com/cost"] = "orders", "43"
	settle("it follows", map[string]string{"team": "orders"}, "43")
	cluster.Spec.Services.RW.Labels = map[string]v1alpha1.LabelValue{"team": "network"}
	service.Labels["team"] = "network"
	settle("a template in spec decides", map[string]string{"team": "network"}, "43")
	cluster.Spec.Services.RW.Labels = nil
	delete(service.Labels, "team")
	settle("and no longer does", map[string]string{"team": "orders"}, "43")
	delete(cluster.Labels, "team")
	settle("what the cluster has no longer goes", nil, "43")
	cluster.Labels["team"] = "orders"
	settle("and comes back", map[string]string{"team": "orders"}, "43")
	cluster.Spec.InheritedMetadata = nil
	settle("nothing is asked for any more", nil, "")
	if _, there := service.Annotations[annotation]; there {
		t.Errorf("the record stays: %v", service.Annotations)
	}
}

func TestARecordThatSomebodyHasWrittenTakesNothingAway(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{annotation: "no JSON"}}}
	if patch := patchOf(&v1alpha1.PostgresCluster{}, secret); patch != nil {
		t.Errorf("it is %v", patch)
	}
}
