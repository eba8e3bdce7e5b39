package protocol

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/apis/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func requested(uid types.UID, minute int) LockRequest {
	return LockRequest{
		Kind: v1alpha1.KindUpgrade, Name: "up-" + string(uid), UID: uid,
		Created: metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute)),
		Request: v1alpha1.VolumeLockRequest{Cluster: "shop", ClusterUID: "c", Token: Token(uid, 0), Mode: v1alpha1.VolumeLockStopped},
	}
}

func lock(uid types.UID, state v1alpha1.VolumeLockState) v1alpha1.VolumeLock {
	return v1alpha1.VolumeLock{RequesterUID: uid, Token: Token(uid, 0), State: state}
}

func states(answers []v1alpha1.VolumeLock) map[types.UID]v1alpha1.VolumeLockState {
	m := map[types.UID]v1alpha1.VolumeLockState{}
	for _, a := range answers {
		m[a.RequesterUID] = a.State
	}
	return m
}

func TestVolumeLocks(t *testing.T) {
	stopped := LockFacts{Stopped: true, Volumes: []v1alpha1.LockedVolume{{Instance: "shop-0", ClaimName: "data-shop-0"}}}
	lacking := LockFacts{Lacking: map[types.UID]string{"a": "Its previous data is gone."}}
	stopping := lock("a", v1alpha1.VolumeLockQueued)
	stopping.StoppingSince = &metav1.Time{Time: noon}
	cases := map[string]struct {
		before   []v1alpha1.VolumeLock
		requests []LockRequest
		facts    LockFacts
		want     map[types.UID]v1alpha1.VolumeLockState
	}{
		"nobody requests, nobody has it":           {facts: stopped, before: []v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockGranted)}, want: map[types.UID]v1alpha1.VolumeLockState{}},
		"the first requester waits for the stop":   {requests: []LockRequest{requested("a", 0)}, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockQueued}},
		"it is granted when PostgreSQL is down":    {requests: []LockRequest{requested("a", 0)}, facts: stopped, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockGranted}},
		"the oldest goes first":                    {requests: []LockRequest{requested("a", 0), requested("b", 1)}, facts: stopped, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockGranted, "b": v1alpha1.VolumeLockQueued}},
		"whoever has it keeps it from an older":    {requests: []LockRequest{requested("a", 0), requested("b", 1)}, before: []v1alpha1.VolumeLock{lock("b", v1alpha1.VolumeLockGranted)}, facts: stopped, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockQueued, "b": v1alpha1.VolumeLockGranted}},
		"a grant isn't lost when a pod is seen":    {requests: []LockRequest{requested("a", 0)}, before: []v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockGranted)}, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockGranted}},
		"adopted stays until it is withdrawn":      {requests: []LockRequest{requested("a", 0), requested("b", 1)}, before: []v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockAdopted)}, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockAdopted, "b": v1alpha1.VolumeLockQueued}},
		"after a withdrawal the next is granted":   {requests: []LockRequest{requested("b", 1)}, before: []v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockGranted)}, facts: stopped, want: map[types.UID]v1alpha1.VolumeLockState{"b": v1alpha1.VolumeLockGranted}},
		"a cluster being deleted refuses":          {requests: []LockRequest{requested("a", 0)}, facts: LockFacts{Refusal: "The PostgresCluster is being deleted."}, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockRefused}},
		"who has nothing to bring back is refused": {requests: []LockRequest{requested("a", 0), requested("b", 1)}, facts: lacking, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockRefused, "b": v1alpha1.VolumeLockQueued}},
		"but not once it is being stopped for":     {requests: []LockRequest{requested("a", 0)}, before: []v1alpha1.VolumeLock{stopping}, facts: lacking, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockQueued}},
		"but not whoever has it already":           {requests: []LockRequest{requested("a", 0)}, before: []v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockGranted)}, facts: LockFacts{Refusal: "The PostgresCluster is being deleted."}, want: map[types.UID]v1alpha1.VolumeLockState{"a": v1alpha1.VolumeLockGranted}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := states(VolumeLocks(c.before, c.requests, c.facts))
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
	requests := []LockRequest{requested("a", 0), requested("b", 0), requested("c", 1)}
	// Every subset of requesters, one after the other, in every order of three.
	var answers []v1alpha1.VolumeLock
	for round := range 512 {
		var present []LockRequest
		for i, a := range requests {
			if round>>(i+3*(round%3))&1 == 1 {
				present = append(present, a)
			}
		}
		answers = VolumeLocks(answers, present, LockFacts{Stopped: round%5 != 0})
		holding := 0
		for _, answer := range answers {
			if owns(answer.State) {
				holding++
			}
		}
		if holding > 1 {
			t.Fatalf("round %d: %d hold at once: %v", round, holding, answers)
		}
	}
}

func TestHandover(t *testing.T) {
	requester := requested("a", 0)
	requester.Handover = &v1alpha1.Handover{Token: requester.Request.Token, DataGeneration: "g2"}
	granted := []v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockGranted)}

	if PendingHandover(nil, []LockRequest{requester}) != nil {
		t.Error("a handover without a grant counts")
	}
	stale := requester
	stale.Handover = &v1alpha1.Handover{Token: "other", DataGeneration: "g2"}
	if PendingHandover(granted, []LockRequest{stale}) != nil {
		t.Error("a handover under another token counts")
	}
	pending := PendingHandover(granted, []LockRequest{requester})
	if pending == nil {
		t.Fatal("the handover isn't seen")
	}
	adopted := Adopt(granted, pending)
	if adopted[0].State != v1alpha1.VolumeLockAdopted || granted[0].State != v1alpha1.VolumeLockGranted {
		t.Errorf("adopting: got %v, and the previous answers are %v", adopted, granted)
	}
	if PendingHandover(adopted, []LockRequest{requester}) != nil {
		t.Error("an adopted handover is pending again")
	}
	requester.Handover.DataGeneration = "g1"
	if PendingHandover(adopted, []LockRequest{requester}) == nil {
		t.Error("taking the adoption back isn't seen")
	}
	if !MustBeStopped(adopted, []LockRequest{requester}) {
		t.Error("the cluster may still serve clients while the adoption is reverted")
	}
	served := Serve(adopted, "g2", metav1.NewTime(noon))
	if again := Serve(served, "g2", metav1.NewTime(noon.Add(time.Hour))); !again[0].ServedSince.Time.Equal(noon) || adopted[0].ServedSince != nil {
		t.Errorf("it has served since %v, and before it was recorded since %v", again[0].ServedSince, adopted[0].ServedSince)
	}
	if PendingHandover(served, []LockRequest{requester}) != nil || MustBeStopped(served, []LockRequest{requester}) {
		t.Error("data that has served clients is taken back")
	}
	reverted := Adopt(adopted, pending)
	if reverted[0].AdoptedGeneration != "g1" || MustBeStopped(reverted, []LockRequest{requester}) || Serve(reverted, "g2", metav1.NewTime(noon))[0].ServedSince != nil {
		t.Errorf("after the adoption was reverted: %+v", reverted)
	}
	if !MustBeStopped(granted, []LockRequest{requester}) || MustBeStopped(nil, []LockRequest{requester}) || MustBeStopped(granted, nil) {
		t.Error("whether PostgreSQL has to be down doesn't follow from who requests")
	}
}

func TestNothingIsStoppedWithoutAnEndInSight(t *testing.T) {
	requests := []LockRequest{requested("a", 0), requested("b", 1)}
	requests[0].Request.MaxDowntime = &metav1.Duration{Duration: time.Hour}
	var locks []v1alpha1.VolumeLock
	for _, step := range []struct {
		name  string
		facts LockFacts
		state v1alpha1.VolumeLockState
		says  string
		stops bool
	}{
		{"a pod hangs", LockFacts{Now: noon, Obstacle: "Pod shop-2 hangs."}, v1alpha1.VolumeLockQueued, "Pod shop-2 hangs.", false},
		{"it has ended", LockFacts{Now: noon.Add(time.Minute)}, v1alpha1.VolumeLockQueued, "PostgreSQL is being stopped.", true},
		{"pods are being deleted", LockFacts{Now: noon.Add(2 * time.Minute), Obstacle: "Pod shop-0 is being deleted."}, v1alpha1.VolumeLockQueued, "PostgreSQL is being stopped.", true},
		{"all have ended", LockFacts{Now: noon.Add(3 * time.Minute), Stopped: true}, v1alpha1.VolumeLockGranted, "", true},
		{"the time is nearly over", LockFacts{Now: noon.Add(time.Hour), Stopped: true}, v1alpha1.VolumeLockGranted, "", true},
		{"it is over", LockFacts{Now: noon.Add(time.Hour + 2*time.Minute), Stopped: true}, v1alpha1.VolumeLockRefused, "No data was handed over within spec.maxDowntime.", false},
		{"later", LockFacts{Now: noon.Add(2 * time.Hour), Stopped: true}, v1alpha1.VolumeLockRefused, "No data was handed over within spec.maxDowntime.", true},
	} {
		locks = VolumeLocks(locks, requests, step.facts)
		if locks[0].State != step.state || locks[0].Message != step.says || MustBeStopped(locks, requests) != step.stops {
			t.Errorf("%s: %s: %s; must be stopped: %v", step.name, locks[0].State, locks[0].Message, MustBeStopped(locks, requests))
		}
	}
	if since := locks[0].StoppingSince; since == nil || !since.Time.Equal(noon.Add(time.Minute)) {
		t.Errorf("stopping since %v", since)
	}
	if locks[1].State != v1alpha1.VolumeLockGranted {
		t.Errorf("the next in turn: %+v", locks[1])
	}
}

func TestAStopThatDoesNotEndIsGivenUp(t *testing.T) {
	requests := []LockRequest{requested("a", 0)}
	locks := VolumeLocks(nil, requests, LockFacts{Now: noon})
	locks = VolumeLocks(locks, requests, LockFacts{Now: noon.Add(time.Minute), Stuck: "Pod shop-2 doesn't end."})
	if locks[0].State != v1alpha1.VolumeLockRefused || locks[0].Message != "Pod shop-2 doesn't end." || MustBeStopped(locks, requests) {
		t.Errorf("%+v", locks[0])
	}
}

func TestAnAnswerCountsOnlyForTheVeryClusterTokenAndSpec(t *testing.T) {
	request := requested("a", 0).Request
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{UID: "c", Generation: 3}}
	cluster.Status.ObservedGeneration = 3
	cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockGranted)}
	if LockFor(cluster, "a", &request) == nil {
		t.Fatal("the answer isn't found")
	}
	for name, change := range map[string]func(*v1alpha1.PostgresCluster, *v1alpha1.VolumeLockRequest){
		"another cluster of that name": func(c *v1alpha1.PostgresCluster, _ *v1alpha1.VolumeLockRequest) { c.UID = "d" },
		"another attempt":              func(_ *v1alpha1.PostgresCluster, r *v1alpha1.VolumeLockRequest) { r.Token = Token("a", 1) },
		"a status of an older spec":    func(c *v1alpha1.PostgresCluster, _ *v1alpha1.VolumeLockRequest) { c.Generation = 4 },
	} {
		c, r := cluster.DeepCopy(), request
		change(c, &r)
		if LockFor(c, "a", &r) != nil {
			t.Errorf("%s counts", name)
		}
	}
}

func TestAsksOfOtherClustersAreNotCollected(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", UID: "c"}}
	up := func(namespace string, clusterUID types.UID) v1alpha1.Upgrade {
		u := v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(namespace + string(clusterUID))}}
		u.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{ClusterUID: clusterUID}
		return u
	}
	requests := LockRequests(cluster, nil, []v1alpha1.Upgrade{up("demo", "c"), up("demo", "d"), up("other", "c"), {}})
	if len(requests) != 1 || requests[0].UID != "democ" {
		t.Errorf("got %v", requests)
	}
}

func TestARequesterWaitsForTheLockAhead(t *testing.T) {
	queued, refused := v1alpha1.VolumeLockQueued, v1alpha1.VolumeLockRefused
	for name, c := range map[string]struct {
		locks []v1alpha1.VolumeLock
		want  types.UID
	}{
		"nobody requests":                   {nil, ""},
		"only itself requests":              {[]v1alpha1.VolumeLock{lock("me", v1alpha1.VolumeLockGranted)}, ""},
		"nobody holds yet":                  {[]v1alpha1.VolumeLock{lock("a", queued), lock("b", queued)}, "a"},
		"one holds":                         {[]v1alpha1.VolumeLock{lock("a", v1alpha1.VolumeLockGranted), lock("b", queued)}, "a"},
		"a younger one holds":               {[]v1alpha1.VolumeLock{lock("a", queued), lock("b", v1alpha1.VolumeLockGranted)}, "b"},
		"a younger one's data is adopted":   {[]v1alpha1.VolumeLock{lock("a", queued), lock("b", v1alpha1.VolumeLockAdopted)}, "b"},
		"it requests before them":           {[]v1alpha1.VolumeLock{lock("me", queued), lock("b", queued)}, "b"},
		"one that is refused has yet to go": {[]v1alpha1.VolumeLock{lock("a", refused)}, "a"},
	} {
		cluster := &v1alpha1.PostgresCluster{}
		cluster.Status.VolumeLocks = c.locks
		got := types.UID("")
		if before := LockAhead(cluster, "me"); before != nil {
			got = before.RequesterUID
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func TestALockSaysInWhichOrderInstancesEnd(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		needed  bool
		facts   LockFacts
		begins  bool
		telling bool
	}{
		"they are told first":                        {needed: true, facts: LockFacts{Untold: "shop-2"}, telling: true},
		"also if nobody needs it":                    {facts: LockFacts{Untold: "shop-2"}, telling: true},
		"who needs it waits for one that never says": {needed: true, facts: LockFacts{Untold: "shop-2", Now: now.Add(time.Hour)}, telling: true},
		"who doesn't need it continues":              {facts: LockFacts{Untold: "shop-2", Now: now.Add(tellTime + 2*time.Second)}, telling: true, begins: true},
		"all know":                                   {needed: true, telling: true, begins: true},
		"something keeps it from being stopped, and they end as usual": {facts: LockFacts{Untold: "shop-2", Obstacle: "a lost node"}},
	} {
		t.Run(name, func(t *testing.T) {
			request := LockRequest{Kind: "Upgrade", Name: "up", UID: "u", Request: v1alpha1.VolumeLockRequest{Token: "t", ReplicasLast: c.needed}}
			requests := []LockRequest{request}
			locks := VolumeLocks(nil, requests, LockFacts{Untold: "all", Now: now})
			if locks[0].TellingSince == nil || locks[0].StoppingSince != nil || locks[0].ReplicasLast != c.needed || MustBeStopped(locks, requests) {
				t.Fatalf("%+v", locks)
			}
			if c.facts.Now.IsZero() {
				c.facts.Now = now
			}
			locks = VolumeLocks(locks, requests, c.facts)
			if begins, telling := locks[0].StoppingSince != nil, locks[0].TellingSince != nil; begins != c.begins || telling != c.telling {
				t.Errorf("%+v", locks)
			}
			locks = VolumeLocks(locks, requests, LockFacts{Stopped: true, Now: now})
			if locks[0].State != v1alpha1.VolumeLockGranted || (locks[0].TellingSince != nil) != c.telling {
				t.Errorf("%+v", locks)
			}
		})
	}
}
