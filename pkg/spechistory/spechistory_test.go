package spechistory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func shop(change func(*v1alpha1.PostgresClusterSpec)) *v1alpha1.PostgresCluster {
	c := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "u"}}
	c.Spec = v1alpha1.PostgresClusterSpec{Version: 17, Instances: 3, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}}
	if change != nil {
		change(&c.Spec)
	}
	return c
}

func revision(t *testing.T, c *v1alpha1.PostgresCluster) *appsv1.ControllerRevision {
	t.Helper()
	r, err := Revision(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// keep does what Keep decides.
func keep(t *testing.T, c *v1alpha1.PostgresCluster, revisions []appsv1.ControllerRevision) []appsv1.ControllerRevision {
	t.Helper()
	action := Keep(revision(t, c), revisions)
	all := slices.DeleteFunc(slices.Clone(revisions), func(r appsv1.ControllerRevision) bool {
		return slices.ContainsFunc(action.Delete, func(d appsv1.ControllerRevision) bool { return d.Name == r.Name })
	})
	if action.Create != nil {
		all = append(all, *action.Create)
	}
	for i := range all {
		if action.Renew != nil && all[i].Name == action.Renew.Name {
			all[i].Revision = action.Number
		}
	}
	return all
}

func TestTheLastSpecsAreKeptOnceEach(t *testing.T) {
	var all []appsv1.ControllerRevision
	instances := func(n int32) *v1alpha1.PostgresCluster {
		return shop(func(s *v1alpha1.PostgresClusterSpec) { s.Instances = n })
	}
	for n := range int32(Limit + 3) {
		for range 2 { // a pass may be repeated
			all = keep(t, instances(n), all)
		}
	}
	if len(all) != Limit || Sorted(all)[0].Revision != Limit+3 || Sorted(all)[Limit-1].Revision != 4 {
		t.Fatalf("%d are kept, from %d to %d", len(all), Sorted(all)[len(all)-1].Revision, Sorted(all)[0].Revision)
	}
	all = keep(t, instances(5), all) // which is there
	if newest := Sorted(all)[0]; len(all) != Limit || newest.Revision != Limit+4 || newest.Name != revision(t, instances(5)).Name {
		t.Errorf("%d are kept, and the newest is %d", len(all), newest.Revision)
	}
}

func TestWhatIsRequestedOnceIsNoPartOfTheHistory(t *testing.T) {
	until := metav1.Now()
	asks := shop(func(s *v1alpha1.PostgresClusterSpec) {
		s.Switchover, s.Reinit, s.Repair = &v1alpha1.Switchover{Token: "x"}, &v1alpha1.Reinit{Token: "y"}, &v1alpha1.Repair{}
		s.Failover = &v1alpha1.Failover{PausedUntil: &until, Fenced: []v1alpha1.InstanceName{"shop-1"}}
	})
	calm := shop(func(s *v1alpha1.PostgresClusterSpec) { s.Failover = &v1alpha1.Failover{} })
	if revision(t, asks).Name != revision(t, calm).Name {
		t.Error("a request is another spec")
	}
	kept, err := Spec(revision(t, shop(nil)))
	if err != nil {
		t.Fatal(err)
	}
	to, _ := Back(asks, kept)
	if to.Switchover.Token != "x" || to.Reinit.Token != "y" || to.Repair == nil || to.Failover.PausedUntil == nil || len(to.Failover.Fenced) != 1 {
		t.Errorf("going back asks for something else: %+v", to)
	}
}

func TestWhatCannotGoBackStays(t *testing.T) {
	absent := []v1alpha1.Database{{Name: "old", Ensure: v1alpha1.Absent}, {Name: "gone", Ensure: v1alpha1.Absent}, {Name: "lost", Ensure: v1alpha1.Absent}}
	now := shop(func(s *v1alpha1.PostgresClusterSpec) {
		s.Version, s.Image, s.Instances, s.Storage.Size = 18, "postgres:18", 2, resource.MustParse("2Gi")
		s.Databases = []v1alpha1.Database{{Name: "old", Ensure: v1alpha1.Present}, {Name: "gone", Ensure: v1alpha1.Absent}}
	})
	now.Status.MajorVersion = 18
	to, stays := Back(now, &shop(func(s *v1alpha1.PostgresClusterSpec) { s.Image, s.Databases = "postgres:17", absent }).Spec)
	if to.Version != 18 || to.Image != "postgres:18" || to.Storage.Size.String() != "2Gi" || to.Instances != 3 {
		t.Errorf("%+v", to)
	}
	if got := fmt.Sprint(to.Databases[0].Name, to.Databases[0].Ensure, to.Databases[1].Name, len(to.Databases)); got != "oldPresentgone2" {
		t.Error(got)
	}
	if said := strings.Join(stays, " "); len(stays) != 4 || !strings.Contains(said, "spec.version stays 18") || !strings.Contains(said, "spec.storage.size stays 2Gi") ||
		!strings.Contains(said, "Database old is not dropped") || !strings.Contains(said, "Database lost is not dropped") {
		t.Error(stays)
	}
	declared := shop(func(s *v1alpha1.PostgresClusterSpec) { s.Version = 18 })
	declared.Status.MajorVersion = 17 // which nobody has upgraded
	if to, stays := Back(declared, &shop(nil).Spec); to.Version != 17 || len(stays) > 0 {
		t.Errorf("a version that never ran stays: %d, %s", to.Version, stays)
	}
}

// A slot that a former spec dropped may have been created again since, and is then all that its client has.
func TestGoingBackDropsNothingThatThePresentSpecHas(t *testing.T) {
	in := func(ensure v1alpha1.Presence) *v1alpha1.PostgresCluster {
		return shop(func(s *v1alpha1.PostgresClusterSpec) {
			s.Roles = []v1alpha1.Role{{Name: "web", Ensure: ensure}}
			s.ReplicationSlots = []v1alpha1.ReplicationSlot{{Name: "cdc", Ensure: ensure}}
			s.Databases = []v1alpha1.Database{{
				Name: "orders", Ensure: v1alpha1.Present,
				Publications:  []v1alpha1.Publication{{Name: "all", Ensure: ensure}},
				Subscriptions: []v1alpha1.Subscription{{Name: "feed", Ensure: ensure}},
			}}
		})
	}
	to, stays := Back(in(v1alpha1.Present), &in(v1alpha1.Absent).Spec)
	if changes, err := Changes(to, &in(v1alpha1.Present).Spec); err != nil || len(changes) > 0 || len(stays) != 4 {
		t.Errorf("%v, %v, %v", changes, stays, err)
	}
	if _, stays := Back(in(v1alpha1.Absent), &in(v1alpha1.Absent).Spec); len(stays) > 0 {
		t.Errorf("what is dropped already is mentioned: %v", stays)
	}
}

func TestChangesNameEachField(t *testing.T) {
	got, err := Changes(&shop(nil).Spec, &shop(func(s *v1alpha1.PostgresClusterSpec) {
		s.Instances, s.Storage.Size, s.Image = 5, resource.MustParse("2Gi"), "postgres:17"
		s.Switchover = &v1alpha1.Switchover{Token: "x"}
	}).Spec)
	want := `[spec.image: (not set) -> "postgres:17" spec.instances: 3 -> 5 spec.storage.size: "1Gi" -> "2Gi"]`
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
