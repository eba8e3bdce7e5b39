package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/writes"
)

// Change is something that is done to a cluster while clients write by way of its Pooler.
type Change struct {
	Name string
	do   func(r *round, number int)
	// prepare is done before clients begin, and what it returns once they have ended; nil: nothing is.
	prepare func(r *round) (tidy func())
	// Breaks: the primary doesn't end in order, or a pod of the Pooler ends, so that what is open ends with an error.
	Breaks bool
	// Alone: there are no controllers meanwhile.
	Alone bool
}

// Changes are all there are, in the order of reports.
func Changes() []Change {
	return []Change{
		{Name: "switchover", do: func(r *round, _ int) { switchover(r) }},
		{Name: "parameter", do: changeSetting},
		{Name: "image", do: changeImage},
		{Name: "resize", do: shrink},
		{Name: "drain", do: func(r *round, _ int) { drain(r) }},
		{Name: "drain-both", do: func(r *round, _ int) { drainBoth(r) }, prepare: besideThePrimary},
		{Name: "graceful-delete", do: func(r *round, _ int) { r.deletePod() }},
		{Name: "kill-pod", do: func(r *round, _ int) { r.killContainer() }, Breaks: true},
		{Name: "node-loss", do: func(r *round, _ int) { loseNode(r) }, Breaks: true},
		{Name: "pooler-kill", do: func(r *round, _ int) { r.handOverWithout(killPooler) }, Breaks: true, Alone: true},
		{Name: "pooler-freeze", do: func(r *round, _ int) { r.handOverWithout(freezePooler) }, Breaks: true, Alone: true},
		{Name: "pooler-cut", do: func(r *round, _ int) { r.handOverWithout(cutPooler) }, Breaks: true, Alone: true},
	}
}

// FindChanges picks changes by name; without a name it is all of them.
func FindChanges(names ...string) ([]Change, error) {
	var all []string
	found := slices.DeleteFunc(Changes(), func(c Change) bool {
		all = append(all, c.Name)
		return len(names) > 0 && !slices.Contains(names, c.Name)
	})
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("no change %q: there are %s", name, strings.Join(all, ", "))
		}
	}
	return found, nil
}

// changeSetting changes a parameter that takes a restart of every instance.
func changeSetting(r *round, number int) {
	r.apply(fmt.Sprintf(`{"spec":{"postgresql":{"parameters":{"max_connections":"%d"}}}}`, 150+number))
}

// changeImage gives the image another name, as the next minor version would have one.
func changeImage(r *round, number int) {
	image := fmt.Sprintf("registry.local/postgresql:17-%s-%d", r.Namespace, number)
	r.Kube("tag", "registry.local/postgresql:17", image)
	r.apply(fmt.Sprintf(`{"spec":{"image":%q}}`, image))
}

// memory of an instance, and what it is given for a moment: more of it needs no restart, and less does.
const memory, moreMemory = "512Mi", "640Mi"

func shrink(r *round, _ int) {
	const limit = `{"spec":{"resources":{"limits":{"memory":%q}}}}`
	r.apply(fmt.Sprintf(limit, moreMemory))
	r.apply(fmt.Sprintf(limit, memory))
}

// apply changes the spec, and waits until every instance follows it.
func (r *round) apply(patch string) {
	r.Helper()
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: r.Meta(name)}
	r.strike()
	r.Merge(cluster, patch)
	r.AwaitTrue(cluster, v1alpha1.ConditionUpToDate)
	r.awaitWhole()
}

// loseNode cuts the primary's node off, and its power: nobody there says that connections have ended.
func loseNode(r *round) {
	node := r.primary.Spec.NodeName
	heal := r.healing(func() {
		r.Kube("link", node, "up")
		r.Kube("start-node", node)
	})
	r.strike()
	r.Kube("link", node, "down")
	r.Kube("kill-node", node)
	r.awaitFailover()
	heal()
}

// handOverWithout deletes the primary's pod, and does something to a pod of the Pooler at a random moment until a second or two later: before
// the handover is announced, during the pause, or after it. What was done is healed when others have continued for a while.
func (r *round) handOverWithout(disturb func(r *round, pod *corev1.Pod) (heal func())) {
	poolers := &corev1.PodList{}
	r.Must(r.List(r.Context(), poolers, client.InNamespace(r.Namespace), client.MatchingLabels{v1alpha1.LabelPooler: name}))
	pod := &poolers.Items[rand.IntN(len(poolers.Items))]
	before := rand.N(2500 * time.Millisecond)
	r.strike()
	r.Must(r.Delete(r.Context(), r.primary.DeepCopy()))
	r.pass(before)
	heal := r.healing(disturb(r, pod))
	r.Logf("%s was disturbed %s after the primary's pod was deleted", pod.Name, short(before))
	r.awaitFailover()
	r.Logf("another primary is in use %s after that", short(time.Since(r.began)))
	r.pass(after)
	heal()
}

func killPooler(r *round, pod *corev1.Pod) (heal func()) {
	r.Kube("signal", id(pod), "KILL")
	return func() {}
}

func freezePooler(r *round, pod *corev1.Pod) (heal func()) {
	r.Kube("signal", id(pod), "STOP")
	return func() { r.Kube("signal", id(pod), "CONT") }
}

// cutPooler has nothing come to a pod from other nodes, nor from it to them. Clients are on its own.
func cutPooler(r *round, pod *corev1.Pod) (heal func()) {
	r.Kube("exec", home, "nft", fmt.Sprintf("add table inet cut; add chain inet cut through { type filter hook forward priority -300; }; "+
		"add rule inet cut through ip saddr %[1]s drop; add rule inet cut through ip daddr %[1]s drop", pod.Status.PodIP))
	return func() { r.Kube("exec", home, "nft", "delete", "table", "inet", "cut") }
}

const (
	// crowd is how many clients write by way of the Pooler, newcomers how many of them connect for each transaction, and controls how many
	// write without it.
	crowd, newcomers, controls = 50, 5, 10
	// Each has a transaction open for a while, and not most of the time.
	openTime, openPace = 10 * time.Millisecond, 500 * time.Millisecond
	// patience is more than anything here may take.
	patience = time.Minute
	poolSize = 10
)

// NewPooled makes a cluster with a Pooler of two pods, on a node that is never hurt.
func NewPooled(t *testing.T, options Options) *Subject {
	t.Helper()
	options.Memory = memory
	s := New(t, options)
	pooler := &v1alpha1.Pooler{ObjectMeta: s.Meta(name), Spec: v1alpha1.PoolerSpec{
		Cluster: v1alpha1.LocalReference{Name: name}, Instances: 2, PoolSize: poolSize,
		Scheduling: scheduledAtHome(),
	}}
	s.Must(s.Create(t.Context(), pooler))
	s.AwaitTrue(pooler, v1alpha1.ConditionReady)
	service := &corev1.Service{ObjectMeta: s.Meta(name + "-pooler")}
	s.Await(service, "an address", func() bool { return service.Spec.ClusterIP != "" })
	s.pooler = s.at(service.Spec.ClusterIP, home)
	s.pooler.TLS = s.pooler.TLS.Clone()
	s.pooler.TLS.ServerName = service.Name + "." + s.Namespace + ".svc"
	s.pooler.Patience = patience
	s.until("clients to reach the primary by way of the pooler", recoveryTime, func(ctx context.Context) error {
		_, err := ask[int](ctx, s.pooler, "SELECT 1")
		return err
	})
	return s
}

// memoryLimit is one for an instance; an empty one is none.
func memoryLimit(limit string) v1alpha1.Resources {
	if limit == "" {
		return v1alpha1.Resources{}
	}
	return v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}
}

// PooledResult is what came of one round.
type PooledResult struct {
	Change       string          `json:"change"`
	Round        int             `json:"round"`
	Clients      int             `json:"clients"`
	Transactions int             `json:"transactions"`
	Failed       int             `json:"failed"`           // transactions of the Pooler's clients
	Open         int             `json:"failedOpen"`       // of them, those that were open when the primary ended, or sent before anybody could know of it
	Repeated     int             `json:"failedRepeatedly"` // clients that got more than one error
	Waits        []time.Duration `json:"longestWaits"`     // of each client, in order
	Lost         int             `json:"lostRows"`
	Old          int             `json:"oldPrimaryAcks"` // by a server that had been replaced
	Direct       int             `json:"failedDirect"`   // transactions of clients that connect without the Pooler
	Gap          float64         `json:"gapSeconds"`     // longest time without a row of who connects anew for each, without the Pooler
	Unfinished   bool            `json:"unfinished,omitempty"`
}

// TryPooled makes a change to a whole cluster, while clients write by way of its Pooler and others without it, and judges what they noticed.
func (s *Subject) TryPooled(t *testing.T, change Change, number int) PooledResult {
	t.Helper()
	r := &round{Subject: s.in(t)}
	r.awaitWhole()
	if change.Alone {
		defer r.LeaveAlone()()
	}
	r.primary = r.Subject.primary()
	if change.prepare != nil {
		defer change.prepare(r)()
	}
	r.until("the rows of the previous round to be deleted", recoveryTime, func(ctx context.Context) error { return writes.Clear(ctx, r.target) })
	r.fresh = r.client("fresh", r.target, false)
	pooled, direct := r.crowd("pooled", r.pooler, crowd), r.crowd("direct", r.target, controls)
	all := slices.Concat(pooled, direct, []*writes.Client{r.fresh})
	r.awaitRowsOfAll(all)
	change.do(r, number)
	r.awaitWhole()
	r.awaitRowsOfAll(all)
	result := r.judgePooled(pooled, direct)
	result.Change, result.Round = change.Name, number
	r.complainPooled(change, result)
	return result
}

// crowd are clients, each with a transaction now and then. Most keep their connections.
func (r *round) crowd(name string, target writes.Target, count int) (all []*writes.Client) {
	r.Helper()
	for i := range count {
		c := &writes.Client{Name: fmt.Sprint(name, " ", i), Target: target, Keep: i >= newcomers, Pace: openPace, Open: openTime, Patience: patience}
		c.Start(context.WithoutCancel(r.Context()))
		r.Cleanup(c.Stop)
		all = append(all, c)
		r.pass(openPace / time.Duration(count)) // not all at the same time
	}
	return all
}

// awaitRowsOfAll waits until each client has had two more rows acknowledged.
func (r *round) awaitRowsOfAll(clients []*writes.Client) {
	r.Helper()
	before := map[*writes.Client]int{}
	for _, c := range clients {
		before[c] = len(c.Acks())
	}
	r.until("rows of all clients", recoveryTime, func(context.Context) error {
		for _, c := range clients {
			if len(c.Acks()) < before[c]+2 {
				return fmt.Errorf("%s has %d more, and the last write came to %w", c.Name, len(c.Acks())-before[c], c.LastError())
			}
		}
		return nil
	})
}

func (r *round) judgePooled(pooled, direct []*writes.Client) (result PooledResult) {
	r.Helper()
	acks := r.stop(r.fresh)
	result.Gap = writes.Longest(acks, r.began, time.Now()).Seconds()
	for _, c := range direct {
		acks = append(acks, r.stop(c)...)
		result.Direct += len(c.Failures())
	}
	for _, c := range pooled {
		own := r.stop(c)
		acks = append(acks, own...)
		result.Clients++
		result.Transactions += len(own)
		result.Waits = append(result.Waits, longestWait(own))
		failures := c.Failures()
		result.Failed += len(failures)
		if len(failures) > 1 && c.Keep {
			result.Repeated++
		}
		for _, f := range failures {
			if !f.Sent.After(r.began.Add(unnoticed)) && !refused(f.Err) {
				result.Open++
			}
			r.Logf("%s: sent %s after the change began, failed %s after that: %v", c.Name, short(f.Sent.Sub(r.began)), short(f.At.Sub(f.Sent)), f.Err)
		}
	}
	slices.Sort(result.Waits)
	var present map[writes.Row]bool
	r.until("the rows that are there", recoveryTime, func(ctx context.Context) (err error) {
		present, err = writes.Present(ctx, r.target)
		return err
	})
	result.Lost, result.Old = len(writes.Lost(acks, present)), len(writes.Doubled(acks, present))
	return result
}

// refused says that PgBouncer handed nothing to a server at all. It looks up the password of who logs in there, and calls the failure of that
// "bouncer config error".
func refused(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "connect:") && !strings.Contains(text, "bouncer config error") || strings.Contains(text, "login has been failing")
}

// longestWait is how much longer than it stays open a transaction took.
func longestWait(acks []writes.Ack) (longest time.Duration) {
	for _, ack := range acks {
		longest = max(longest, ack.At.Sub(ack.Began)-openTime)
	}
	return longest
}

// unnoticed is how long the loss of a node stays unnoticed: what is sent to its server meanwhile is in a transaction there.
const unnoticed = 5 * time.Second

// longestAllowed is for how long a planned change may have clients wait: for 99 of a hundred, as a machine may stand still for a moment.
const longestAllowed = 2 * time.Second

// handOverTime is more than a pooler may delay a handover, and what that takes.
const handOverTime = 15 * time.Second

// complainPooled fails the test for what clients must not notice.
func (r *round) complainPooled(change Change, result PooledResult) {
	r.Helper()
	r.Logf("%s %d: %d of %d transactions failed, %d open ones, %d clients repeatedly; longest wait: median %s, most %s; %d rows lost, %d by an old primary; without the pooler %d failed, and the longest gap was %.1f s",
		change.Name, result.Round, result.Failed, result.Transactions, result.Open, result.Repeated,
		short(quantile(result.Waits, 0.5)), short(quantile(result.Waits, 1)), result.Lost, result.Old, result.Direct, result.Gap)
	if result.Lost > 0 || result.Old > 0 {
		r.Errorf("%d acknowledged rows are lost, and %d were acknowledged by a server that had been replaced", result.Lost, result.Old)
	}
	if result.Direct == 0 {
		r.Error("clients without the pooler noticed nothing either, so this shows nothing")
	}
	switch {
	case !change.Breaks && result.Failed > 0:
		r.Errorf("%d transactions failed in a planned change", result.Failed)
	case !change.Breaks && quantile(result.Waits, 0.99) > longestAllowed:
		r.Errorf("clients waited for %s", quantile(result.Waits, 0.99))
	case change.Alone && result.Gap > handOverTime.Seconds():
		r.Errorf("a pod of the Pooler delayed the handover: %.1f s", result.Gap)
	case change.Breaks && !change.Alone && (result.Failed > result.Open || result.Repeated > 0):
		r.Errorf("%d transactions failed that were not open, and %d clients got more than one error", result.Failed-result.Open, result.Repeated)
	}
}

// quantile of sorted values: the least that this share of them doesn't exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*share))]
}

// PooledMarkdown is the table of the page of poolers: a line for each change.
func PooledMarkdown(results []PooledResult) string {
	var out strings.Builder
	fmt.Fprintln(&out, "| change | rounds | transactions | failed | longest wait of a client: median | p99 | most | rows lost | by an old primary | without a pooler: failed | longest gap |")
	fmt.Fprintln(&out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, change := range Changes() {
		var waits []time.Duration
		var sum PooledResult
		rounds, unfinished := 0, 0
		for _, result := range results {
			switch {
			case result.Change != change.Name:
			case result.Unfinished:
				unfinished++
			default:
				rounds++
				waits = append(waits, result.Waits...)
				sum.Transactions, sum.Gap = sum.Transactions+result.Transactions, max(sum.Gap, result.Gap)
				sum.Failed, sum.Lost, sum.Old, sum.Direct = sum.Failed+result.Failed, sum.Lost+result.Lost, sum.Old+result.Old, sum.Direct+result.Direct
			}
		}
		if rounds+unfinished == 0 {
			continue
		}
		slices.Sort(waits)
		tried := fmt.Sprint(rounds)
		if unfinished > 0 {
			tried += fmt.Sprintf(", %d more without an end", unfinished)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %d | %d | %.2f s | %.2f s | %.2f s | %d | %d | %d | %.1f s |\n", change.Name, tried, sum.Transactions, sum.Failed,
			quantile(waits, 0.5).Seconds(), quantile(waits, 0.99).Seconds(), quantile(waits, 1).Seconds(), sum.Lost, sum.Old, sum.Direct, sum.Gap)
	}
	return out.String()
}
