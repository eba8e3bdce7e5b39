package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

func versioned(uid, version string) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "demo", Name: "shop", UID: types.UID(uid), ResourceVersion: version,
	}}
}

func TestACacheIsBehindWhileItShowsWhatWeHaveWrittenOver(t *testing.T) {
	now := time.Unix(1000, 0)
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
		known := &written{}
		known.replace(versioned("a", "9"), []string{"7", "8"}, now)
		if got := known.stale(c.cluster, now.Add(c.after)); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestNewsAreAsOldAsTheFirstOfThem(t *testing.T) {
	m, now, shop := &written{}, time.Unix(1000, 0), versioned("a", "1")
	m.news(shop, now)
	if got := m.news(shop, now.Add(time.Second)); got != now {
		t.Errorf("since %s", got)
	}
	m.replace(shop, nil, now.Add(3*time.Second))
	if got := m.news(shop, now.Add(3*time.Second)); got != now {
		t.Errorf("after a pass that wrote nothing: since %s", got)
	}
	m.replace(shop, []string{"1"}, now.Add(4*time.Second))
	if got := m.news(shop, now.Add(5*time.Second)); got != now.Add(5*time.Second) {
		t.Errorf("after a write: since %s", got)
	}
	m.dropNews(shop)
	if got := m.news(shop, now.Add(6*time.Second)); got != now.Add(6*time.Second) {
		t.Errorf("after there were none: since %s", got)
	}
}

func TestWhatWasMadeCountsForAWhile(t *testing.T) {
	m, now, shop := &written{}, time.Unix(1000, 0), versioned("a", "1")
	m.put(shop, "Service/shop-rw", &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "s"}}, now)
	m.put(shop, "Service/shop-r", &corev1.Service{}, now)
	if m.get(shop, "Service/shop-rw", madeAge, now.Add(madeAge)) == nil {
		t.Error("it was forgotten")
	}
	if m.get(shop, "Service/shop-rw", madeAge, now.Add(2*madeAge)) != nil {
		t.Error("it counts for ever")
	}
	if m.get(shop, "Service/shop-r", madeAge, now) != nil {
		t.Error("one that never came from the API server counts")
	}
	if m.get(versioned("b", "1"), "Service/shop-rw", madeAge, now) != nil {
		t.Error("it counts for another cluster of the same name")
	}
	m.put(shop, "Service/shop-rw", &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "s"}}, now)
	m.drop(shop, "Service/shop-rw")
	if m.get(shop, "Service/shop-rw", madeAge, now) != nil {
		t.Error("it was not dropped")
	}
}
