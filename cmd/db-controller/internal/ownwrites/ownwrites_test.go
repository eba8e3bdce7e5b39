package ownwrites

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"howdah.dev/apis/v1alpha1"
)

func versioned(uid, version string) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: "shop", UID: types.UID(uid), ResourceVersion: version,
	}}
}

// process is one with a cache and an API server that hold different things.
type process struct {
	Memory
	cache, live client.Reader
	clock       time.Time
}

func (p *process) view(cluster *v1alpha1.PostgresCluster) *View {
	return p.View(cluster, p.cache, p.live, func() time.Time { return p.clock })
}

func started() *process {
	return &process{cache: fake.NewFakeClient(), live: fake.NewFakeClient(), clock: time.Unix(1000, 0)}
}

func service(uid types.UID) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop-rw", UID: uid}}
}

const key = "Service/shop-rw"

func TestACacheIsStaleWhileItShowsWhatWeHaveOverwritten(t *testing.T) {
	for name, c := range map[string]struct {
		cluster *v1alpha1.PostgresCluster
		after   time.Duration
		want    bool
	}{
		"the first of two versions":        {versioned("a", "7"), 0, true},
		"the second":                       {versioned("a", "8"), time.Second, true},
		"what came of it":                  {versioned("a", "9"), 0, false},
		"another version":                  {versioned("a", "10"), 0, false},
		"too long ago to rely on":          {versioned("a", "8"), time.Minute, false},
		"another cluster of the same name": {versioned("b", "8"), 0, false},
	} {
		p := started()
		p.view(versioned("a", "9")).Overwrote([]string{"7", "8"})
		p.clock = p.clock.Add(c.after)
		if got := p.view(c.cluster).Stale(); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWhatWasRememberedCountsForAWhile(t *testing.T) {
	p, shop := started(), versioned("a", "1")
	p.view(shop).Remember(key, service("s"))
	p.view(shop).Remember("Service/shop-r", &corev1.Service{})
	p.clock = p.clock.Add(Age)
	if p.view(shop).Recall(key, Age) == nil {
		t.Error("it was forgotten")
	}
	if p.view(shop).Recall("Service/shop-r", time.Hour) != nil {
		t.Error("one that never came from the API server counts")
	}
	if p.view(versioned("b", "1")).Recall(key, Age) != nil {
		t.Error("it counts for another cluster of the same name")
	}
	p.view(shop).Remember(key, service("s"))
	p.clock = p.clock.Add(2 * Age)
	if p.view(shop).Recall(key, Age) != nil {
		t.Error("it counts for ever")
	}
	p.view(shop).Remember(key, service("s"))
	p.view(shop).Drop(key)
	if p.view(shop).Recall(key, Age) != nil {
		t.Error("it was not dropped")
	}
	p.view(shop).Remember(key, service("s"))
	p.Forget(client.ObjectKeyFromObject(shop))
	if p.view(shop).Recall(key, Age) != nil {
		t.Error("it was not forgotten with its cluster")
	}
}

func TestAnObjectIsReadFromTheCacheThenFromMemoryThenFromTheAPIServer(t *testing.T) {
	type way func(*View) func(context.Context, string, client.Object) (client.Object, error)
	get := func(v *View) func(context.Context, string, client.Object) (client.Object, error) { return v.Get }
	known := func(v *View) func(context.Context, string, client.Object) (client.Object, error) { return v.GetKnown }
	shown := func(v *View) func(context.Context, string, client.Object) (client.Object, error) { return v.GetShown }
	ran := versioned("a", "1")
	ran.Status.SystemIdentifier = "7"
	for name, c := range map[string]struct {
		way                       way
		cached, remembered, there bool
		begun                     bool
		cluster                   *v1alpha1.PostgresCluster
		want                      types.UID
		err                       error
		lags                      bool
	}{
		"the cache shows it":                            {way: get, cached: true, remembered: true, there: true, want: "cached"},
		"the cache doesn't show it yet":                 {way: get, remembered: true, there: true, want: "remembered", lags: true},
		"somebody else's, which the cache never shows":  {way: get, there: true, want: "there"},
		"there is none":                                 {way: get},
		"of a cluster that we have begun":               {way: get, there: true, begun: true},
		"of one that we have begun, and that has run":   {way: get, there: true, begun: true, cluster: ran, want: "there"},
		"known from memory":                             {way: known, remembered: true, there: true, want: "remembered", lags: true},
		"not known":                                     {way: known, there: true},
		"shown":                                         {way: shown, cached: true, remembered: true, want: "cached"},
		"created by us and not shown: memory won't do":  {way: shown, remembered: true, there: true, err: ErrStale},
		"not shown, and not created by us a moment ago": {way: shown, there: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, cluster := started(), versioned("a", "1")
			if c.cluster != nil {
				cluster = c.cluster
			}
			if c.cached {
				p.cache = fake.NewFakeClient(service("cached"))
			}
			if c.there {
				p.live = fake.NewFakeClient(service("there"))
			}
			if c.remembered {
				p.view(cluster).Remember(key, service("remembered"))
			}
			if c.begun {
				p.view(cluster).Begin()
			}
			v := p.view(cluster)
			found, err := c.way(v)(t.Context(), key, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop-rw"}})
			var uid types.UID
			if found != nil {
				uid = found.GetUID()
			}
			if uid != c.want || !errors.Is(err, c.err) || v.Lags() != c.lags {
				t.Errorf("got %q, %v, lags %v", uid, err, v.Lags())
			}
			if c.cached && p.view(cluster).Recall(key, Age) != nil {
				t.Error("what the cache shows is remembered, and would come back once it is deleted")
			}
		})
	}
}

func TestAClusterIsCompleteOnlyForWhoHasBegunItAndUntilSomethingFails(t *testing.T) {
	p, shop := started(), versioned("a", "1")
	if v := p.view(shop); v.Begun() || v.Complete() {
		t.Error("a process that has just started knows all")
	}
	first := p.view(shop)
	first.Begin()
	if first.Begun() {
		t.Error("it counts in the pass that begins it, which has read nothing yet")
	}
	if v := p.view(shop); !v.Begun() || !v.Complete() {
		t.Error("who has begun it doesn't know all")
	}
	deleted := shop.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: p.clock}
	if v := p.view(deleted); !v.Begun() || v.Complete() {
		t.Error("of one that is being deleted all is known")
	}
	p.view(shop).Doubt()
	if v := p.view(shop); v.Begun() || v.Complete() {
		t.Error("after a failure all is known")
	}
}

func TestCreatingWhatIsThereAfterAllIsAnErrorOfItsOwn(t *testing.T) {
	p, shop := started(), versioned("a", "1")
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "services"}, "shop-rw")
	if err := p.view(shop).Taken(exists); !errors.Is(err, exists) {
		t.Errorf("a process that asks the API server first gets %v", err)
	}
	p.view(shop).Begin()
	if err := p.view(shop).Taken(exists); !errors.Is(err, ErrTaken) || apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	other := errors.New("the API server is away")
	if err := p.view(shop).Taken(other); !errors.Is(err, other) {
		t.Errorf("got %v", err)
	}
}
