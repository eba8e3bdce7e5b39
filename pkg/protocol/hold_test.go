package protocol

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ask(uid types.UID, minute int) HoldAsk {
	return HoldAsk{
		Kind: v1alpha1.KindUpgrade, Name: "up-" + string(uid), UID: uid,
		Created: metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute)),
		Request: v1alpha1.HoldRequest{Cluster: "shop", ClusterUID: "c", Token: Token(uid, 0), Mode: v1alpha1.HoldStopped},
	}
}

func answered(uid types.UID, state v1alpha1.HoldState) v1alpha1.HoldAnswer {
	return v1alpha1.HoldAnswer{AskerUID: uid, Token: Token(uid, 0), State: state}
}

func states(answers []v1alpha1.HoldAnswer) map[types.UID]v1alpha1.HoldState {
	m := map[types.UID]v1alpha1.HoldState{}
	for _, a := range answers {
		m[a.AskerUID] = a.State
	}
	return m
}

func TestAnswerHolds(t *testing.T) {
	stopped := HoldFacts{Stopped: true, Volumes: []v1alpha1.HeldVolume{{Instance: "shop-0", ClaimName: "data-shop-0"}}}
	cases := map[string]struct {
		before []v1alpha1.HoldAnswer
		asks   []HoldAsk
		facts  HoldFacts
		want   map[types.UID]v1alpha1.HoldState
	}{
		"nobody asks, nobody holds":              {facts: stopped, before: []v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldGranted)}, want: map[types.UID]v1alpha1.HoldState{}},
		"the first asker waits for the stop":     {asks: []HoldAsk{ask("a", 0)}, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldQueued}},
		"it is granted when PostgreSQL is down":  {asks: []HoldAsk{ask("a", 0)}, facts: stopped, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldGranted}},
		"the oldest goes first":                  {asks: []HoldAsk{ask("a", 0), ask("b", 1)}, facts: stopped, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldGranted, "b": v1alpha1.HoldQueued}},
		"whoever holds keeps it from an older":   {asks: []HoldAsk{ask("a", 0), ask("b", 1)}, before: []v1alpha1.HoldAnswer{answered("b", v1alpha1.HoldGranted)}, facts: stopped, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldQueued, "b": v1alpha1.HoldGranted}},
		"a grant isn't lost when a pod is seen":  {asks: []HoldAsk{ask("a", 0)}, before: []v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldGranted)}, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldGranted}},
		"adopted stays until it is withdrawn":    {asks: []HoldAsk{ask("a", 0), ask("b", 1)}, before: []v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldAdopted)}, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldAdopted, "b": v1alpha1.HoldQueued}},
		"after a withdrawal the next is granted": {asks: []HoldAsk{ask("b", 1)}, before: []v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldGranted)}, facts: stopped, want: map[types.UID]v1alpha1.HoldState{"b": v1alpha1.HoldGranted}},
		"a cluster being deleted refuses":        {asks: []HoldAsk{ask("a", 0)}, facts: HoldFacts{Refusal: "it is being deleted"}, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldRefused}},
		"but not whoever holds already":          {asks: []HoldAsk{ask("a", 0)}, before: []v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldGranted)}, facts: HoldFacts{Refusal: "it is being deleted"}, want: map[types.UID]v1alpha1.HoldState{"a": v1alpha1.HoldGranted}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := states(AnswerHolds(c.before, c.asks, c.facts))
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for uid, state := range c.want {
				if got[uid] != state {
					t.Errorf("%s: got %s, want %s", uid, got[uid], state)
				}
			}
		})
	}
}

func TestOneHolderAtMostWhateverTheOrderOfAsksAndWithdrawals(t *testing.T) {
	asks := []HoldAsk{ask("a", 0), ask("b", 0), ask("c", 1)}
	// Every subset of askers, one after the other, in every order of three.
	var answers []v1alpha1.HoldAnswer
	for round := range 512 {
		var present []HoldAsk
		for i, a := range asks {
			if round>>(i+3*(round%3))&1 == 1 {
				present = append(present, a)
			}
		}
		answers = AnswerHolds(answers, present, HoldFacts{Stopped: round%5 != 0})
		holding := 0
		for _, answer := range answers {
			if holds(answer.State) {
				holding++
			}
		}
		if holding > 1 {
			t.Fatalf("round %d: %d hold at once: %v", round, holding, answers)
		}
	}
}

func TestHandover(t *testing.T) {
	asker := ask("a", 0)
	asker.Handover = &v1alpha1.Handover{Token: asker.Request.Token, DataGeneration: "g2"}
	granted := []v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldGranted)}

	if PendingHandover(nil, []HoldAsk{asker}) != nil {
		t.Error("a handover without a grant counts")
	}
	stale := asker
	stale.Handover = &v1alpha1.Handover{Token: "other", DataGeneration: "g2"}
	if PendingHandover(granted, []HoldAsk{stale}) != nil {
		t.Error("a handover under another token counts")
	}
	pending := PendingHandover(granted, []HoldAsk{asker})
	if pending == nil {
		t.Fatal("the handover isn't seen")
	}
	adopted := Adopt(granted, pending)
	if adopted[0].State != v1alpha1.HoldAdopted || granted[0].State != v1alpha1.HoldGranted {
		t.Errorf("adopting: got %v, and the answers of before are %v", adopted, granted)
	}
	if PendingHandover(adopted, []HoldAsk{asker}) != nil {
		t.Error("an adopted handover is pending again")
	}
	asker.Handover.DataGeneration = "g1"
	if PendingHandover(adopted, []HoldAsk{asker}) == nil {
		t.Error("taking the adoption back isn't seen")
	}
	if MustBeStopped(adopted, []HoldAsk{asker}) {
		t.Error("the cluster stays down after the adoption")
	}
	if !MustBeStopped(granted, []HoldAsk{asker}) || !MustBeStopped(nil, []HoldAsk{asker}) || MustBeStopped(granted, nil) {
		t.Error("whether PostgreSQL has to be down doesn't follow from who asks")
	}
}

func TestAnAnswerCountsOnlyForTheVeryClusterTokenAndSpec(t *testing.T) {
	request := ask("a", 0).Request
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{UID: "c", Generation: 3}}
	cluster.Status.ObservedGeneration = 3
	cluster.Status.Holds = []v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldGranted)}
	if HoldAnswerFor(cluster, "a", &request) == nil {
		t.Fatal("the answer isn't found")
	}
	for name, change := range map[string]func(*v1alpha1.PostgresCluster, *v1alpha1.HoldRequest){
		"another cluster of that name": func(c *v1alpha1.PostgresCluster, _ *v1alpha1.HoldRequest) { c.UID = "d" },
		"another attempt":              func(_ *v1alpha1.PostgresCluster, r *v1alpha1.HoldRequest) { r.Token = Token("a", 1) },
		"a status of an older spec":    func(c *v1alpha1.PostgresCluster, _ *v1alpha1.HoldRequest) { c.Generation = 4 },
	} {
		c, r := cluster.DeepCopy(), request
		change(c, &r)
		if HoldAnswerFor(c, "a", &r) != nil {
			t.Errorf("%s counts", name)
		}
	}
}

func TestAsksOfOtherClustersAreNotCollected(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", UID: "c"}}
	up := func(namespace string, clusterUID types.UID) v1alpha1.Upgrade {
		u := v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(namespace + string(clusterUID))}}
		u.Status.Hold = &v1alpha1.HoldRequest{ClusterUID: clusterUID}
		return u
	}
	asks := HoldAsks(cluster, nil, []v1alpha1.Upgrade{up("demo", "c"), up("demo", "d"), up("other", "c"), {}})
	if len(asks) != 1 || asks[0].UID != "democ" {
		t.Errorf("got %v", asks)
	}
}

func TestWhoHasYetToAskWaitsForWhoHolds(t *testing.T) {
	queued, refused := v1alpha1.HoldQueued, v1alpha1.HoldRefused
	for name, c := range map[string]struct {
		holds []v1alpha1.HoldAnswer
		want  types.UID
	}{
		"nobody asks":                       {nil, ""},
		"only itself asks":                  {[]v1alpha1.HoldAnswer{answered("me", v1alpha1.HoldGranted)}, ""},
		"nobody holds yet":                  {[]v1alpha1.HoldAnswer{answered("a", queued), answered("b", queued)}, "a"},
		"one holds":                         {[]v1alpha1.HoldAnswer{answered("a", v1alpha1.HoldGranted), answered("b", queued)}, "a"},
		"a younger one holds":               {[]v1alpha1.HoldAnswer{answered("a", queued), answered("b", v1alpha1.HoldGranted)}, "b"},
		"a younger one's data is adopted":   {[]v1alpha1.HoldAnswer{answered("a", queued), answered("b", v1alpha1.HoldAdopted)}, "b"},
		"it asks before them":               {[]v1alpha1.HoldAnswer{answered("me", queued), answered("b", queued)}, "b"},
		"one that is refused has yet to go": {[]v1alpha1.HoldAnswer{answered("a", refused)}, "a"},
	} {
		cluster := &v1alpha1.PostgresCluster{}
		cluster.Status.Holds = c.holds
		got := types.UID("")
		if before := HoldBefore(cluster, "me"); before != nil {
			got = before.AskerUID
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
