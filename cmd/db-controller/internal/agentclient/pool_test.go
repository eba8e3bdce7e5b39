package agentclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/howdah/cmd/db-controller/internal/pace"
	"howdah.dev/howdah/pkg/agentapi"
)

var shop = types.NamespacedName{Namespace: "demo", Name: "shop"}

// crowd answers for all agents. Those that are deaf accept a question and never answer it.
type crowd struct {
	mu   sync.Mutex
	deaf map[string]bool
	// slow ones need this long.
	slow    map[string]time.Duration
	changed map[string]func(*agentapi.Status)
	asked   map[string]int
	// now and most are how many are asked at once.
	now, most int
}

func newCrowd() *crowd {
	return &crowd{deaf: map[string]bool{}, slow: map[string]time.Duration{}, changed: map[string]func(*agentapi.Status){}, asked: map[string]int{}}
}

func (c *crowd) Status(ctx context.Context, target Target) (*agentapi.Status, error) {
	c.mu.Lock()
	c.asked[target.IP]++
	c.now++
	c.most = max(c.most, c.now)
	deaf, slow, change := c.deaf[target.IP], c.slow[target.IP], c.changed[target.IP]
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	if deaf {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if slow > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(slow):
		}
	}
	status := &agentapi.Status{Pod: target.Host, State: agentapi.StateRunning}
	if change != nil {
		change(status)
	}
	return status, nil
}

func (c *crowd) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *crowd) count(ip string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[ip]
}

// woken counts how often clusters were woken.
type woken struct {
	mu    sync.Mutex
	times map[types.NamespacedName]int
}

func (w *woken) wake(cluster types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times[cluster]++
}

func (w *woken) take(cluster types.NamespacedName) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	times := w.times[cluster]
	delete(w.times, cluster)
	return times
}

func newTestPool(client StatusClient) (*Pool, *woken) {
	pool, w := NewPool(client, time.Now, func() float64 { return 0.5 }), &woken{times: map[types.NamespacedName]int{}}
	pool.WakeBy(w.wake)
	return pool, w
}

// instances by the addresses of their pods.
func instancesAt(ips ...string) map[string]Instance {
	all := map[string]Instance{}
	for _, ip := range ips {
		all["pod-"+ip] = Instance{Target: Target{IP: ip, Host: "pod-" + ip}, Incarnation: "1"}
	}
	return all
}

func TestALookWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCrowd()
		all.deaf["2"] = true
		pool, w := newTestPool(all)
		begin := time.Now()
		if got := pool.Look(shop, instancesAt("1", "2")); got.Known || got.Live {
			t.Errorf("nobody was asked, and there is %+v", got)
		}
		if time.Since(begin) != 0 {
			t.Errorf("the look took %s", time.Since(begin))
		}
		time.Sleep(timeLimit)
		synctest.Wait()
		if w.take(shop) != 1 {
			t.Error("the cluster was not woken by the first answers")
		}
		if got := pool.Look(shop, instancesAt("1", "2")); !got.Known || !got.Live || len(got.ByPod) != 1 || got.ByPod["pod-1"] == nil {
			t.Errorf("after all were asked there is %+v", got)
		}
		if got := pool.Look(shop, instancesAt("1", "2")); got.Live || len(got.ByPod) != 1 {
			t.Errorf("a second pass must not decide on the answers that the first has decided on: %+v", got)
		}
	})
}

func TestAnswersAreOnlyLiveForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, _ := newTestPool(newCrowd())
		pool.Look(shop, instancesAt("1"))
		synctest.Wait()
		time.Sleep(liveAge + 1)
		if got := pool.Look(shop, instancesAt("1")); got.Live || !got.Known || got.Age != liveAge+1 {
			t.Errorf("got %+v", got)
		}
		synctest.Wait() // that look has had them asked again
		if got := pool.Look(shop, instancesAt("1")); !got.Live || got.Age != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAClusterIsWokenByWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCrowd()
		pool, w := newTestPool(all)
		look := func() {
			time.Sleep(refreshAge)
			pool.Look(shop, instancesAt("1"))
			synctest.Wait()
		}
		look()
		w.take(shop)
		pool.Look(shop, instancesAt("1"))
		look()
		if w.take(shop) != 0 {
			t.Error("it was woken although nothing changed")
		}
		lsn := uint64(0)
		all.set(func() { all.changed["1"] = func(s *agentapi.Status) { lsn++; s.LSN = lsn } })
		look()
		if w.take(shop) != 0 {
			t.Error("it was woken for what changes all the time")
		}
		all.set(func() { all.changed["1"] = func(s *agentapi.Status) { s.Role = "primary" } })
		look()
		if w.take(shop) != 1 {
			t.Error("it was not woken for a primary")
		}
	})
}

// Passes look rarely at a cluster at which nothing happens.
func TestAgentsAreAskedWhetherOrNotAPassLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCrowd()
		pool, w := newTestPool(all)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go pool.Run(ctx)
		pool.Look(shop, instancesAt("1"))
		synctest.Wait()
		w.take(shop)
		pool.Look(shop, instancesAt("1"))
		time.Sleep(10 * pace.QuietInterval)
		synctest.Wait()
		if asked := all.count("1"); asked < 9 || asked > 11 {
			t.Errorf("in %s it was asked %d times", 10*pace.QuietInterval, asked)
		}
		if w.take(shop) != 0 {
			t.Error("the cluster was woken although nothing changed")
		}
		all.set(func() { all.changed["1"] = func(s *agentapi.Status) { s.Role = "primary" } })
		time.Sleep(pace.QuietInterval + tick)
		synctest.Wait()
		if w.take(shop) != 1 {
			t.Error("the cluster was not woken for a primary")
		}
		pool.Forget(shop)
		asked := all.count("1")
		time.Sleep(10 * pace.QuietInterval)
		synctest.Wait()
		if all.count("1") != asked {
			t.Error("the agent of a deleted cluster is asked")
		}
	})
}

func TestAnAgentThatDoesNotAnswerIsAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCrowd()
		all.deaf["2"] = true
		pool, _ := newTestPool(all)
		for range 600 {
			pool.Look(shop, instancesAt("1", "2"))
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		if healthy, deaf := all.count("1"), all.count("2"); healthy < 540 || deaf > 25 || deaf < 18 {
			t.Errorf("in 20 minutes the one that answers was asked %d times, the deaf one %d times", healthy, deaf)
		}
		before := all.count("2")
		pool.Demand(shop)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if all.count("2") != before+1 {
			t.Error("it was not asked where something is decided on it")
		}
		another := instancesAt("1", "2")
		another["pod-2"] = Instance{Target: another["pod-2"].Target, Incarnation: "2"}
		for range 3 {
			pool.Look(shop, another)
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		if all.count("2") < before+3 {
			t.Error("another pod in its place is not asked anew")
		}
	})
}

func TestADemandWakesWhateverComesAndAsksAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCrowd()
		all.deaf["2"] = true
		pool, w := newTestPool(all)
		for range 3 { // the deaf one is in a pause now
			pool.Look(shop, instancesAt("1", "2"))
			time.Sleep(2 * suspectTimeLimit)
			synctest.Wait()
		}
		w.take(shop)
		pool.Look(shop, instancesAt("1", "2"))
		pool.Demand(shop) // joins what the look has begun
		pool.Demand(shop)
		time.Sleep(suspectTimeLimit)
		synctest.Wait()
		if w.take(shop) != 1 {
			t.Error("it was not woken once")
		}
		if got := pool.Look(shop, instancesAt("1", "2")); !got.Live {
			t.Errorf("all were asked: %+v", got)
		}
	})
}

// A third of the agents are deaf, and nobody waits for them but their own clusters.
func TestManyDeafAgentsHoldUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCrowd()
		pool, w := newTestPool(all)
		const clusters, deaf = 1000, 333
		name := func(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(i)} }
		for i := range clusters {
			all.deaf[fmt.Sprint(i)] = i < deaf
		}
		lookAtAll := func() {
			for i := range clusters {
				pool.Look(name(i), instancesAt(fmt.Sprint(i)))
			}
		}
		lookAtAll()
		time.Sleep(8 * time.Second)
		lookAtAll() // the deaf ones are known now
		synctest.Wait()
		for i := range deaf {
			pool.Demand(name(i))
		}
		w.take(name(clusters - 1))
		begin := time.Now()
		pool.Demand(name(clusters - 1))
		synctest.Wait()
		if w.take(name(clusters-1)) != 1 || time.Since(begin) != 0 {
			t.Errorf("a cluster whose agent answers at once was not woken at once, behind %d deaf ones", deaf)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if all.most > concurrent+concurrentSuspects {
			t.Errorf("%d were asked at once", all.most)
		}
	})
}

// A busy node makes an agent slow. If it were given no more time than before, it would count as silent for as long as that lasts.
func TestAnAgentThatIsOnlySlowIsHeardAtTheSecondAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCrowd()
		all.slow["1"] = 2 * time.Second
		pool, w := newTestPool(all)
		pool.Look(shop, instancesAt("1"))
		time.Sleep(timeLimit)
		synctest.Wait()
		if got := pool.Look(shop, instancesAt("1")); len(got.ByPod) != 0 {
			t.Errorf("it answered within %s: %+v", timeLimit, got)
		}
		w.take(shop)
		time.Sleep(firstPause)
		pool.Look(shop, instancesAt("1"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.take(shop) != 1 {
			t.Error("the cluster was not woken by its answer")
		}
		if got := pool.Look(shop, instancesAt("1")); !got.Live || got.ByPod["pod-1"] == nil {
			t.Errorf("it was not heard: %+v", got)
		}
	})
}

func TestAPodWithoutAnAgentNeedsNoAnswer(t *testing.T) {
	pool, _ := newTestPool(newCrowd())
	if got := pool.Look(shop, nil); !got.Known || !got.Live {
		t.Errorf("got %+v", got)
	}
	pool.Forget(shop)
	if len(pool.clusters) != 0 {
		t.Error("a deleted cluster is remembered")
	}
}

func TestPausesGrowAndAreSpread(t *testing.T) {
	for _, c := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{{1, 0.5, firstPause}, {1, 0, 3 * time.Second}, {2, 0.5, 8 * time.Second}, {5, 0.5, longestPause}, {5000, 1, longestPause * 5 / 4}} {
		if got := pause(c.failures, c.random); got != c.want {
			t.Errorf("after %d failures: %s and not %s", c.failures, got, c.want)
		}
	}
}

// A look at a cluster of three that is quiet is budgeted: there are thousands of them.
func TestAQuietLookAllocatesLittle(t *testing.T) {
	pool, _ := newTestPool(newCrowd())
	three := instancesAt("1", "2", "3")
	pool.Look(shop, three)
	for pool.clusters[shop].busy(&pool.mu) {
		time.Sleep(time.Millisecond)
	}
	pool.now = func() time.Time { return pool.clusters[shop].ended }
	if n := testing.AllocsPerRun(100, func() { pool.Look(shop, three) }); n > 20 {
		t.Errorf("a look allocates %v times", n)
	}
}

func (k *kept) busy(mu *sync.Mutex) bool {
	mu.Lock()
	defer mu.Unlock()
	return k.pending > 0
}

// A call finds its connection without looking at the others.
func TestACallDoesNotSearchTheTableOfConnections(t *testing.T) {
	now := time.Unix(1e9, 0)
	client := New(func() time.Time { return now })
	for i := range 30_000 {
		client.known[key{fmt.Sprint("pod-", i), "10.0.0.1"}] = &connection{made: now, used: now.Add(-time.Duration(i%9) * time.Minute)}
	}
	client.swept = now
	first := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			client.recall(key{"pod-7", "10.0.0.1"}, [32]byte{}, now)
		}
	})
	if first.AllocsPerOp() != 0 || first.NsPerOp() > int64(50*time.Microsecond) { // the search takes some hundred
		t.Errorf("a call with 30,000 known connections takes %d ns and allocates %d times", first.NsPerOp(), first.AllocsPerOp())
	}
}

func TestADigestHasWhatAPassActsOn(t *testing.T) {
	base := func() *agentapi.Status {
		return &agentapi.Status{
			Pod: "shop-0", State: agentapi.StateRunning, Archive: &agentapi.ArchiveStatus{LastWAL: "1"}, Election: &agentapi.ElectionStatus{Leader: "shop-0"},
			Replication: &agentapi.ReplicationStatus{Streaming: true}, Volume: &agentapi.VolumeStatus{Bytes: 1000, UsedBytes: 100},
			Rejoin: &agentapi.RejoinStatus{BytesTotal: 1000}, Copies: []agentapi.Copy{{ID: "g1"}}, Disk: &agentapi.DiskStatus{},
			Usage: &agentapi.Usage{Seconds: 60}, Checks: &agentapi.Checks{Done: map[string]agentapi.Check{agentapi.CheckDNS: {}}},
			Slots: &agentapi.SlotsStatus{Slots: []agentapi.SlotStatus{{Name: "s"}}},
		}
	}
	for name, c := range map[string]struct {
		change func(*agentapi.Status)
		differ bool
	}{
		"nothing":              {func(*agentapi.Status) {}, false},
		"bytes of a log":       {func(s *agentapi.Status) { s.LSN, s.Replication.ReplayedLSN, s.Archive.LastWAL = 7, "0/7", "2" }, false},
		"a little lag":         {func(s *agentapi.Status) { s.Replication.LagBytes, s.Replication.LagSeconds = 1000, 0.5 }, false},
		"much lag":             {func(s *agentapi.Status) { s.Replication.LagBytes = 64 << 20 }, true},
		"a little space":       {func(s *agentapi.Status) { s.Volume.UsedBytes = 101 }, false},
		"much space":           {func(s *agentapi.Status) { s.Volume.UsedBytes = 150 }, true},
		"what is used":         {func(s *agentapi.Status) { s.Usage = &agentapi.Usage{Seconds: 120, CPUMillis: 7} }, false},
		"a passed check":       {func(s *agentapi.Status) { s.Checks.Done[agentapi.CheckDNS] = agentapi.Check{Time: time.Unix(1, 0)} }, false},
		"a failed check":       {func(s *agentapi.Status) { s.Checks.Done[agentapi.CheckDNS] = agentapi.Check{Failed: true} }, true},
		"damage":               {func(s *agentapi.Status) { s.Checks.Damaged = true }, true},
		"checked indexes":      {func(s *agentapi.Status) { s.Checks.IndexesChecked = 7 }, false},
		"a round":              {func(s *agentapi.Status) { s.Checks.RoundEnded = time.Unix(1, 0) }, true},
		"a little of a slot":   {func(s *agentapi.Status) { s.Slots.Slots[0].RetainedBytes = 1000 }, false},
		"much of a slot":       {func(s *agentapi.Status) { s.Slots.Slots[0].RetainedBytes = 1 << 30 }, true},
		"a segment that waits": {func(s *agentapi.Status) { s.Archive.Waiting, s.Archive.WaitingSince = 1, time.Unix(1, 0) }, false},
		"segments that wait":   {func(s *agentapi.Status) { s.Archive.Waiting, s.Archive.WaitingSince = 9, time.Unix(1, 0) }, true},
		"a stalled disk":       {func(s *agentapi.Status) { s.Disk.StalledSince = time.Unix(1, 0) }, true},
		"a role":               {func(s *agentapi.Status) { s.Role = "primary" }, true},
		"a leader":             {func(s *agentapi.Status) { s.Election.Leader = "shop-1" }, true},
		"a configuration":      {func(s *agentapi.Status) { s.ConfigHash = "c2" }, true},
		"a failing archive":    {func(s *agentapi.Status) { s.Archive.FailingSince = time.Unix(1, 0) }, true},
		"a member":             {func(s *agentapi.Status) { s.Election.Members = []string{"shop-1"} }, true},
		"a copy":               {func(s *agentapi.Status) { s.Copies[0].ID = "g2" }, true},
		"a clone":              {func(s *agentapi.Status) { s.Rejoin.BytesDone = 500 }, true},
	} {
		changed := base()
		c.change(changed)
		if (digestOf(changed) != digestOf(base())) != c.differ {
			t.Errorf("%s: differs is not %v", name, c.differ)
		}
	}
}

func TestAnErrorIsNoAnswer(t *testing.T) {
	h := &heard{status: &agentapi.Status{}, asked: true}
	h.keep(nil, digest{}, errors.New("refused"), time.Unix(0, 0), 0.5)
	if h.status != nil || h.failures != 1 {
		t.Errorf("%+v", h)
	}
}
