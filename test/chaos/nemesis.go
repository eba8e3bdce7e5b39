package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/test/testkit/place"
	"howdah.dev/howdah/test/testkit/registers"
)

// Episodes are what a random run consists of: faults for a while, several at a time, then all of them are healed, and the cluster has
// to be whole again.
type Episodes struct {
	Seed uint64
	// Faults for so long in each episode.
	Faults time.Duration
	// Leave these out.
	Without []string
}

// nemesis does random things to a cluster. What it does follows from the seed; which instance is the primary doesn't.
type nemesis struct {
	*round
	random  *rand.Rand
	without []string
	active  map[string]func() // how what was done is healed, by what it was done to
	heals   map[string]time.Time
	taken   bool // data was taken from an instance in this episode
}

// disruption is one of the things that a nemesis does.
type disruption struct {
	name string
	// on says what it is done to; while something is done to that, nothing else is.
	on func(*nemesis) (string, error)
	do func(n *nemesis, on string) (heal func(), err error)
	// takes data from an instance. That is done once in an episode: what a commit waited for may be on two instances only.
	takes bool
}

// Episode does random things to the cluster, heals them, and judges what came of all.
func (s *Subject) Episode(t *testing.T, episodes Episodes, number int) Result {
	t.Helper()
	r := &round{Subject: s.in(t)}
	n := &nemesis{
		round: r, random: rand.New(rand.NewPCG(episodes.Seed, uint64(number))), without: episodes.Without,
		active: map[string]func(){}, heals: map[string]time.Time{},
	}
	t.Cleanup(n.healAll)
	r.awaitWhole()
	first := int64(number) * 100
	r.until("registers", recoveryTime, func(ctx context.Context) error { return registers.Prepare(ctx, r.target, first) })
	r.write()
	clients := registers.Start(context.WithoutCancel(t.Context()), r.target, first, 4)
	t.Cleanup(func() { clients.Stop() })

	r.strike()
	for end := time.Now().Add(episodes.Faults); time.Now().Before(end) && t.Context().Err() == nil; {
		n.disrupt()
		n.heal(time.Now())
		r.pass(n.between(200*time.Millisecond, 6*time.Second))
	}
	n.healAll()
	r.acted = time.Now()
	r.awaitWhole()
	whole := time.Now()
	r.awaitUnbroken(r.kept)
	r.awaitUnbroken(r.fresh)
	result := r.judge(whole)
	r.linearizable(clients.Stop())
	r.compareInstances()
	r.checkPages()
	result.Fault, result.Round = "random", number
	r.complain(result)
	return result
}

// between draws a time.
func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.random.Int64N(int64(most-least)))
}

// disrupt does the next thing, unless what it would be done to is disrupted already.
func (n *nemesis) disrupt() {
	all := disruptions()
	d, lasts := all[n.random.IntN(len(all))], n.between(time.Second, 15*time.Second)
	if slices.Contains(n.without, d.name) || d.takes && n.taken {
		return
	}
	on, err := d.on(n)
	if err != nil || n.active[on] != nil {
		return
	}
	n.taken = n.taken || d.takes // also where it was half done
	heal, err := d.do(n, on)
	if err != nil {
		n.Logf("%s: %s of %s: %v", n.elapsed(), d.name, on, err)
		return
	}
	if heal == nil {
		n.Logf("%s: %s of %s", n.elapsed(), d.name, on)
		return
	}
	n.Logf("%s: %s of %s for %s", n.elapsed(), d.name, on, short(lasts))
	n.active[on], n.heals[on] = heal, time.Now().Add(lasts)
}

// elapsed is the time since the episode began.
func (n *nemesis) elapsed() time.Duration { return short(time.Since(n.began)) }

// heal ends what has lasted for long enough.
func (n *nemesis) heal(now time.Time) {
	for on, heal := range n.active {
		if now.After(n.heals[on]) {
			delete(n.active, on)
			heal()
		}
	}
}

// healAll ends everything; the API server first, as the rest may want it.
func (n *nemesis) healAll() {
	for _, on := range slices.SortedFunc(maps.Keys(n.active), func(a, b string) int { return strings.Compare(order(a), order(b)) }) {
		heal := n.active[on]
		delete(n.active, on)
		heal()
	}
}

func order(on string) string {
	if on == apiServer {
		return ""
	}
	return on
}

// bed runs a command of the test bed that may fail, as what it is about may be gone.
func bed(args ...string) error {
	if out, err := exec.Command(place.Bed, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// instance draws one; every other time it is the primary.
func (n *nemesis) instance() (string, error) {
	i, primary := n.random.IntN(int(n.instances)), n.random.IntN(2) == 0
	pods, err := n.pods(n.Context())
	if err != nil || len(pods) == 0 {
		return "", errors.Join(err, errors.New("there is no pod"))
	}
	if primary {
		if address, err := ask[string](n.Context(), n.target, "SELECT host(inet_server_addr())"); err == nil {
			if at := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Status.PodIP == address }); at >= 0 {
				return pods[at].Name, nil
			}
		}
	}
	return pods[i%len(pods)].Name, nil
}

// node draws that of an instance.
func (n *nemesis) node() (string, error) {
	name, err := n.instance()
	if err != nil {
		return "", err
	}
	pod, err := n.pod(name)
	if err == nil && pod.Spec.NodeName == "" {
		err = errors.New("it has no node")
	}
	return pod.Spec.NodeName, err
}

func (r *round) pod(name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, r.Get(r.Context(), client.ObjectKey{Namespace: r.Namespace, Name: name}, pod)
}

// linearizable judges what the clients of registers saw, where no acknowledged row may be lost.
func (r *round) linearizable(history []registers.Operation) {
	r.Helper()
	if r.Replication != Sync {
		return
	}
	switch verdict := registers.Check(history, time.Minute); {
	case len(verdict.Operations) > 0:
		r.Errorf("register %d was not read and written in any order:\n%s", verdict.Register, lines(verdict.Operations))
	case verdict.Unknown:
		r.Logf("whether the registers were read and written in an order could not be told in a minute")
	}
}

func lines[T fmt.Stringer](of []T) string {
	var b strings.Builder
	for _, one := range of {
		fmt.Fprintln(&b, one)
	}
	return b.String()
}

// checkPages has every instance check the tables and indexes of the application.
func (r *round) checkPages() {
	r.Helper()
	const check = `SELECT coalesce(string_agg(message, '; '), '') FROM (
  SELECT c.relname || ': ' || v.msg AS message FROM pg_class c, LATERAL verify_heapam(c.oid) v
  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.relnamespace = 'public'::regnamespace
  UNION ALL SELECT bt_index_check(i.indexrelid, true)::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  WHERE c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree') AND c.relnamespace = 'public'::regnamespace) AS all_of_them WHERE message <> ''`
	_, err := r.SQLOn(r.Subject.primary().Name, "CREATE EXTENSION IF NOT EXISTS amcheck")
	r.Must(err)
	r.awaitWhole() // so everybody has it
	pods, err := r.pods(r.Context())
	r.Must(err)
	for _, pod := range pods {
		if said, err := r.SQLOn(pod.Name, check); err != nil || said != "" {
			r.Errorf("%s: %s %v", pod.Name, said, err)
		}
	}
}
