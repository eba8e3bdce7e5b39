//go:build chart

package chart

import (
	"slices"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

func TestLeasesOfDatabasesHaveAShareOfTheAPIServerOfTheirOwn(t *testing.T) {
	objects := render(t, "watchNamespaces={one,two}", "flowSchema.shares=7")
	levels, schemas := ofKind(objects, "PriorityLevelConfiguration"), ofKind(objects, "FlowSchema")
	if len(levels) != 1 || len(schemas) != 1 {
		t.Fatalf("there are %v and %v", names(levels), names(schemas))
	}
	level, schema := as[flowcontrolv1.PriorityLevelConfiguration](t, levels[0]), as[flowcontrolv1.FlowSchema](t, schemas[0])
	if level.Name != schema.Spec.PriorityLevelConfiguration.Name || *level.Spec.Limited.NominalConcurrencyShares != 7 {
		t.Errorf("%s is for level %s, and %s has %d shares", schema.Name, schema.Spec.PriorityLevelConfiguration.Name, level.Name, *level.Spec.Limited.NominalConcurrencyShares)
	}
	for _, rule := range schema.Spec.Rules {
		for _, resources := range rule.ResourceRules {
			if !slices.Equal(resources.Namespaces, []string{"one", "two"}) {
				t.Errorf("%v of namespaces %v", resources.Resources, resources.Namespaces)
			}
		}
	}
	if off := render(t, "flowSchema.enabled=false"); len(ofKind(off, "FlowSchema"))+len(ofKind(off, "PriorityLevelConfiguration")) > 0 {
		t.Error("they are installed all the same")
	}
}
