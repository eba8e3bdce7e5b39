package cluster

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

// names of steps, without the package.
func names(plan steps) []string {
	var all []string
	for _, step := range plan {
		name := runtime.FuncForPC(reflect.ValueOf(step).Pointer()).Name()
		all = append(all, strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm"))
	}
	return all
}

func TestThePlanFollowsWhatWasSeen(t *testing.T) {
	r := &Reconciler{}
	deleted := func(o *observed.Cluster) { o.Cluster.DeletionTimestamp = ptr.To(metav1.NewTime(observedtest.Noon)) }
	before := func(plan []string, first, second string) bool {
		a, b := slices.Index(plan, first), slices.Index(plan, second)
		return a >= 0 && b >= 0 && a < b
	}
	live := names(r.plan(observedtest.Running(nil)))
	for _, order := range [][2]string{
		{"ensureFinalizer", "admit"}, {"admit", "pinBeginning"}, {"pinBeginning", "EnsureAuthority"},
		{"AdoptHandover", "Respond"}, {"Respond", "EnsureStatefulSet"}, {"Initialize", "EnsureStatefulSet"},
		{"EnsureConfigMaps", "EnsureStatefulSet"}, {"EnsureStatefulSet", "AwaitReady"},
	} {
		if !before(live, order[0], order[1]) {
			t.Errorf("%s has to come before %s: %v", order[0], order[1], live)
		}
	}
	gone := []string{"keepOrder", "Respond", "StopInitialization", "StopInstances", "ReleaseSource", "ReleaseVolumes", "removeFinalizer"}
	if plan := names(r.plan(observedtest.Running(deleted))); !slices.Equal(plan, gone) {
		t.Errorf("without a final backup: %v", plan)
	}
	waits := names(r.plan(observedtest.Running(func(o *observed.Cluster) { deleted(o); observedtest.Archiving(o) })))
	goesOn := names(r.parts().untilBackedUp())
	if len(waits) != len(gone)+1 || !before(goesOn, "EnsureStatefulSet", "Request") || !before(goesOn, "AwaitRelease", "Await") {
		t.Errorf("with a final backup: %v; %v", waits, goesOn)
	}
	never := names(r.plan(observedtest.Running(func(o *observed.Cluster) {
		deleted(o)
		observedtest.Archiving(o)
		o.Cluster.Status.SystemIdentifier = ""
		observedtest.AllGone(o)
		observedtest.LeadTo(o, "", nil)
	})))
	if !slices.Equal(never, gone) {
		t.Errorf("of a cluster that never served: %v", never)
	}
	unheard := func(o *observed.Cluster) {
		deleted(o)
		observedtest.Archiving(o)
		o.Cluster.Status.SystemIdentifier, o.Agents = "", nil
	}
	if plan := names(r.plan(observedtest.Running(unheard))); !slices.Equal(plan, waits) {
		t.Errorf("of a cluster that serves, and whose agent was never heard: %v", plan)
	}
	led := func(o *observed.Cluster) {
		unheard(o)
		observedtest.AllGone(o)
		o.Live[observed.Key("EndpointSlice", "shop-rw")].SetAnnotations(map[string]string{agentapi.AnnotationDataGeneration: "g1"})
	}
	if plan := names(r.plan(observedtest.Running(led))); !slices.Equal(plan, waits) {
		t.Errorf("of a cluster that has led clients to its data: %v", plan)
	}
}
