package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/writes"
)

// Result is what came of one round, in seconds and rows.
type Result struct {
	Fault             string      `json:"fault"`
	Replication       Replication `json:"replication"`
	Renewal           Renewal     `json:"renewal,omitempty"`
	Round             int         `json:"round"`
	GapSeconds        float64     `json:"gapSeconds"`              // longest time without a row over a kept connection
	NewConnectionGap  float64     `json:"newConnectionGapSeconds"` // the same, each row over a new one
	LostRows          int         `json:"lostRows"`                // acknowledged and not there
	DoublePrimaryAcks int         `json:"doublePrimaryAcks"`       // by a server that had been replaced
	StaleWritable     float64     `json:"staleWritableSeconds"`    // for how long a server accepted writes after another one had begun to
	WholeAgainSeconds float64     `json:"wholeAgainSeconds"`       // after the fault, or after it was healed
	Failovers         int         `json:"failovers"`               // how often another timeline was begun
	Unfinished        bool        `json:"unfinished,omitempty"`    // it never became whole again, and nothing else is known
}

// round is one fault, with the clients that write meanwhile.
type round struct {
	*Subject
	kept, fresh *writes.Client
	inside      []*writes.Client // in the part that is cut off
	loading     []*writes.Client // as fast as they can
	direct      []*writes.Client // to each instance, past the Service
	looking     []*writes.Client // whether each instance accepts writes
	steady      bool             // no other instance may become primary
	orderly     bool             // no acknowledged row may be lost, whatever the replication
	primary     *corev1.Pod      // when the round began
	began       time.Time        // the fault
	acted       time.Time        // the last thing that was done to the cluster: the fault, or its healing
}

// rows are a second of writing.
const rows = 20

// Try does a fault to a whole cluster, waits until it is whole again, and judges. The test fails where a row is lost that
// must not be, or where two servers acknowledged simultaneously.
func (s *Subject) Try(t *testing.T, fault Fault, number int) Result {
	t.Helper()
	r := &round{Subject: s.in(t), orderly: fault.Orderly, steady: fault.Steady}
	r.awaitWhole()
	r.awaitRenewal()
	r.primary = r.Subject.primary()
	r.write()

	fault.do(r)
	r.awaitWhole()
	whole := time.Now()
	r.awaitUnbroken(r.kept)
	r.awaitUnbroken(r.fresh)
	result := r.judge(whole)
	r.compareInstances()
	result.Fault, result.Round = fault.Name, number
	r.complain(result)
	return result
}

// compareInstances makes sure that every instance has the same rows, once the clients have ended and all are whole.
func (r *round) compareInstances() {
	r.Helper()
	r.awaitWhole() // so everybody has what was written before this
	pods, err := r.pods(r.Context())
	r.Must(err)
	r.compareHistories(pods)
	const query = "SELECT count(*) || ' rows, ' || coalesce(sum(hashtextextended(client || n, 0)), 0) FROM " + writes.Table + " WHERE client <> 'whole'"
	want := ""
	for _, pod := range pods {
		var has string
		r.until("the rows of "+pod.Name, recoveryTime, func(ctx context.Context) (err error) {
			has, err = ask[string](ctx, r.at(pod.Status.PodIP, home), query)
			return err
		})
		if want = cmp.Or(want, has); has != want {
			r.Errorf("%s has %s, and %s has %s", pods[0].Name, want, pod.Name, has)
		}
	}
}

// compareHistories makes sure that all instances are on one timeline, and tell the same of how it came about.
func (r *round) compareHistories(pods []corev1.Pod) {
	r.Helper()
	timeline, err := r.SQLOn(r.Subject.primary().Name, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")
	r.Must(err)
	want := ""
	for _, pod := range pods {
		has, err := r.SQLOn(pod.Name, "SELECT coalesce(pg_read_file('pg_wal/"+timeline+".history', 0, 65536, true), '')")
		r.Must(err)
		if want = cmp.Or(want, has); has != "" && has != want {
			r.Errorf("the history of timeline %s is %q, and %q to %s", timeline, want, has, pod.Name)
		}
	}
}

// write has the clients begin that judge: two through the Service, and one past it to each instance, which finds a server that
// accepts writes when nobody leads to it any more.
func (r *round) write() {
	r.Helper()
	r.until("the rows of the previous round to be deleted", recoveryTime, func(ctx context.Context) error { return writes.Clear(ctx, r.target) })
	r.kept = r.client("kept", r.target, true)
	r.fresh = r.client("fresh", r.target, false)
	for i := range r.instances {
		pod := fmt.Sprintf("%s-%d", name, i)
		c := &writes.Client{Name: "direct to " + pod, Keep: true, Pace: 200 * time.Millisecond, Find: r.directly(pod)}
		c.Start(context.WithoutCancel(r.Context()))
		r.Cleanup(c.Stop)
		r.direct = append(r.direct, c)
		looking := &writes.Client{Name: "looking at " + pod, Looks: true, Keep: true, Pace: 100 * time.Millisecond, Find: r.directly(pod)}
		looking.Start(context.WithoutCancel(r.Context()))
		r.Cleanup(looking.Stop)
		r.looking = append(r.looking, looking)
	}
	r.awaitRows(r.kept, rows)
	r.awaitRows(r.fresh, rows)
}

// directly finds a pod past the Service; where it was last, while the API server is away.
func (r *round) directly(pod string) func(context.Context) (writes.Target, error) {
	last := writes.Target{}
	return func(ctx context.Context) (writes.Target, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		found := &corev1.Pod{}
		if r.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: pod}, found) == nil && found.Status.PodIP != "" {
			last = r.at(found.Status.PodIP, home)
		}
		if last.Address == "" {
			return last, errors.New("the pod has no address so far")
		}
		return last, nil
	}
}

// client begins to write; it ends with the test at the latest.
func (r *round) client(name string, target writes.Target, keep bool) *writes.Client {
	r.Helper()
	c := &writes.Client{Name: name, Target: target, Keep: keep}
	c.Start(context.WithoutCancel(r.Context()))
	r.Cleanup(c.Stop)
	return c
}

// clientsInside write to the primary of now from inside of its node, past every Service. One is patient: a server that
// was frozen may want to acknowledge what it was asked long ago.
func (r *round) clientsInside() {
	r.Helper()
	target := r.at(r.primary.Status.PodIP, r.primary.Spec.NodeName)
	patient := &writes.Client{Name: "inside, kept", Target: target, Keep: true, Patience: 5 * time.Minute}
	patient.Start(context.WithoutCancel(r.Context()))
	r.Cleanup(patient.Stop)
	r.inside = []*writes.Client{patient, r.client("inside, fresh", target, false)}
	for _, c := range r.inside {
		r.awaitRows(c, rows)
	}
}

// load has some clients write 200 rows a second each, so that replicas which end before the primary lack some.
func (r *round) load() {
	r.Helper()
	target := r.target
	target.Patience = 15 * time.Second // a server needs more than one for four at once on a busy machine; their gaps are not judged
	for i := range 4 {
		c := &writes.Client{Name: fmt.Sprintf("load %d", i), Target: target, Keep: true, Pace: 5 * time.Millisecond}
		c.Start(context.WithoutCancel(r.Context()))
		r.Cleanup(c.Stop)
		r.loading = append(r.loading, c)
	}
	for _, c := range r.loading {
		r.awaitRows(c, 10*rows)
	}
}

// strike notes that the fault begins now.
func (r *round) strike() {
	r.began = time.Now()
	r.acted = r.began
}

// healing heals what a fault did: once, when it is called, or at the end of a test that failed before.
func (r *round) healing(do func()) (heal func()) {
	var once sync.Once
	r.Cleanup(func() { once.Do(do) })
	return func() {
		r.acted = time.Now()
		once.Do(do)
	}
}

// awaitRows waits until this many more rows of a client are acknowledged than now.
func (r *round) awaitRows(c *writes.Client, more int) {
	r.Helper()
	before := len(c.Acks())
	r.until(fmt.Sprintf("%d rows of the client %s", more, c.Name), recoveryTime, func(context.Context) error {
		if len(c.Acks()) < before+more {
			return fmt.Errorf("%d so far, and the last write came to %w", len(c.Acks())-before, c.LastError())
		}
		return nil
	})
}

// awaitUnbroken waits until a client writes without any failure: a Service that leads to the primary and to somebody else by
// turns is an outage for every second connection.
func (r *round) awaitUnbroken(c *writes.Client) {
	r.Helper()
	r.awaitRows(c, rows)
	r.until(fmt.Sprintf("%d rows of the client %s in a row", rows, c.Name), recoveryTime, func(context.Context) error {
		if count := c.Unbroken(); count < rows {
			return fmt.Errorf("%d so far, and the last write came to %w", count, c.LastError())
		}
		return nil
	})
}

// awaitFailover waits until clients of the Service write to another server than when the round began.
func (r *round) awaitFailover() {
	r.Helper()
	r.until("another primary", recoveryTime, func(context.Context) error {
		acks := r.fresh.Acks()
		if last := acks[len(acks)-1]; last.Server == r.primary.Status.PodIP {
			return fmt.Errorf("%s still is, and the last write came to %w", last.Reign(), r.fresh.LastError())
		}
		return nil
	})
	r.awaitRows(r.fresh, rows)
}

func (r *round) judge(whole time.Time) Result {
	r.Helper()
	end := time.Now()
	all := slices.Concat(r.stop(r.kept), r.stop(r.fresh))
	for _, c := range slices.Concat(r.inside, r.loading, r.direct) {
		all = append(all, r.stop(c)...)
	}
	var present map[writes.Row]bool
	r.until("the rows that are there", recoveryTime, func(ctx context.Context) (err error) {
		present, err = writes.Present(ctx, r.target)
		return err
	})
	var looks []writes.Ack
	for _, c := range r.looking {
		looks = append(looks, r.stop(c)...)
	}
	lost, doubled, stale := writes.Lost(all, present), writes.Doubled(all, present), writes.Stale(looks)
	for what, acks := range map[string][]writes.Ack{"lost": lost, "acknowledged by a server that was replaced": doubled, "answers of a server that accepted writes after another one": stale} {
		if len(acks) > 0 {
			first, last := acks[0], acks[len(acks)-1]
			r.Logf("%d are %s, the first %d of the client %s by %s, from %s to %s after the fault began, and %s after the last thing that was done",
				len(acks), what, first.N, first.Client, first.Reign(), short(first.At.Sub(r.began)), short(last.At.Sub(r.began)), short(last.At.Sub(r.acted)))
		}
	}
	return Result{
		Replication:       r.Replication,
		Renewal:           r.Renewal,
		GapSeconds:        writes.Longest(r.kept.Acks(), r.began, end).Seconds(),
		NewConnectionGap:  writes.Longest(r.fresh.Acks(), r.began, end).Seconds(),
		LostRows:          len(lost),
		DoublePrimaryAcks: len(doubled),
		StaleWritable:     writes.Span(stale).Seconds(),
		WholeAgainSeconds: whole.Sub(r.acted).Seconds(),
		Failovers:         writes.Failovers(all),
	}
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func (r *round) stop(c *writes.Client) []writes.Ack {
	c.Stop()
	return c.Acks()
}

// thawed is for how long a server that was frozen may answer, until its watchdog has killed it. What it commits is not acknowledged
// under synchronous replication.
const thawed = 500 * time.Millisecond

// complain fails the test for what must never be.
func (r *round) complain(result Result) {
	r.Helper()
	r.Logf("%+v", result)
	switch {
	case result.LostRows > 0 && r.Replication == Sync:
		r.Errorf("%d acknowledged rows are lost under synchronous replication", result.LostRows)
	case result.LostRows > 0 && r.orderly:
		r.Errorf("%d acknowledged rows are lost in an orderly stop", result.LostRows)
	}
	if result.Failovers > 0 && r.steady {
		r.Errorf("another instance became primary %d times", result.Failovers)
	}
	if result.DoublePrimaryAcks > 0 {
		r.Errorf("%d rows were acknowledged by a server that had been replaced", result.DoublePrimaryAcks)
	}
	if result.StaleWritable > thawed.Seconds() {
		r.Errorf("a server that had been replaced accepted writes for %.1f s", result.StaleWritable)
	}
}
