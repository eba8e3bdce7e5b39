// Package worlds runs the controllers' real reconcilers in one goroutine, on an API server in memory, with caches that lag, a clock
// that only the simulation moves, and models of what is not ours: Kubernetes' controllers and kubelets, nodes, volumes, the work of Jobs,
// the agents and their election, clients that write rows, and people who change their minds. A world is drawn from a seed. Whatever
// is drawn, what Howdah promises must hold; a world in which it doesn't says what happened, and its seed repeats it.
package worlds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/test/testkit/memapi"
)

const (
	// namespace of everything, and the name of the one cluster.
	namespace, clusterName = "demo", "shop"
	// happenings that a world has before its faults end.
	happenings = 600
	// patience is how long everything may take to come to rest once there are no more faults.
	patience = 45 * time.Minute
)

// World is everything.
type World struct {
	random *rand.Rand
	began  time.Time
	server *memapi.Server
	api    *memapi.Client
	// bucket has one backup of the cluster, from before it had rows.
	bucket objstore.Store

	kube    *kube
	pg      *servers
	rows    *rows
	people  *people
	control *control

	ends map[string]int // how much of what came about
	// moment is what was decided last, and tense for how many events that is still fresh.
	moment string
	tense  int

	// backup of the API server's store, with the adoptions and volumes that there were, and whether it was restored.
	backup    *memapi.Backup
	adoptions int64
	volumes   string
	restored  bool

	trace  []string
	broken string
	calm   bool // there are no more faults
}

func init() { ctrl.SetLogger(logr.Discard()) }

// newWorld is called within a bubble of synctest, whose clock is that of the world.
func newWorld(seed uint64, bucket objstore.Store) *World {
	w := &World{bucket: bucket, random: rand.New(rand.NewPCG(seed, 19)), began: time.Now(), ends: map[string]int{}}
	w.server = memapi.New(manager.Scheme(), time.Now)
	w.api = w.server.Client(nil, nil)
	w.kube, w.pg, w.rows, w.people = newKube(w), newServers(w), newRows(w), newPeople(w)
	w.control = newControl(w)
	return w
}

// say adds a line to the story.
func (w *World) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9.3fs  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// breaks says that a promise is broken, and how. The first one counts.
func (w *World) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.say("BROKEN: %s", w.broken)
	}
}

// story is what happened last.
func (w *World) story(lines int) string {
	return strings.Join(w.trace[max(0, len(w.trace)-lines):], "\n")
}

// chance is true once in this many times.
func (w *World) chance(in int) bool { return w.random.IntN(in) == 0 }

// pass lets time pass.
func (w *World) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	w.control.tick()
	w.pg.beat()
}

// run a world to its end, and say which promise it broke; empty: none.
func (w *World) run() string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.people.begin()
	w.control.start(ctx)
	if !w.chance(4) && !w.settle(w.satisfied) { // else there are faults from the beginning
		w.breaks("without any fault: %s", w.unsatisfied())
	}
	for range happenings {
		if w.event(); w.broken != "" {
			break
		}
		w.check()
	}
	if w.broken == "" {
		w.rest()
	}
	w.control.end()
	return w.broken
}

// event is one thing that happens next.
func (w *World) event() {
	w.look()
	w.control.succeed()
	w.keepOrRestore()
	if w.tense > 0 && w.chance(12) {
		w.strike()
		return
	}
	switch n := w.random.IntN(100); {
	case n < 34:
		w.control.pass()
	case n < 46:
		w.control.tell(false)
	case n < 70:
		w.kube.step()
	case n < 84:
		w.pg.step()
	case n < 88:
		w.rows.write()
	case n < 92:
		w.people.act()
	case n < 93, n < 95 && w.people.busy():
		w.trouble()
	default:
		w.pass(time.Duration(w.random.IntN(2000)) * time.Millisecond)
	}
}

// trouble is a fault.
func (w *World) trouble() {
	switch w.random.IntN(8) {
	case 0, 1:
		w.kube.trouble()
	case 2:
		w.away(controllers[w.random.IntN(len(controllers))])
	default:
		w.control.trouble()
	}
}

// long is a time in which no more goes wrong, so that what waits for its time sees it come.
func (w *World) long(lasts time.Duration) {
	for until := time.Now().Add(lasts); time.Now().Before(until) && w.broken == ""; {
		w.turn()
		w.pass(max(8*time.Second, w.control.idle())) // often enough for the lease
	}
}

// turn has everybody do what there is to do.
func (w *World) turn() {
	w.control.tell(true)
	for w.control.pass() {
		w.control.tell(true)
	}
	w.kube.everything()
	w.pg.everyone()
	w.rows.write()
	if w.calm {
		w.people.decideData()
	}
	w.check()
}

// rest has all faults end, and everything come to rest: then everything must be as spec says.
func (w *World) rest() {
	w.calm = true
	w.say("There are no more faults.")
	w.kube.heal()
	w.control.heal()
	w.people.settleDown()
	if !w.settle(w.satisfied) {
		w.breaks("after %s without faults: %s", patience, w.unsatisfied())
		return
	}
	w.count()
	w.people.leave()
	if w.broken == "" && !w.settle(w.empty) {
		w.breaks("%s after everything was deleted, there are still %s", patience, strings.Join(w.left(), ", "))
	}
}

// settle has everything happen in turn until something holds.
func (w *World) settle(holds func() bool) bool {
	for until := time.Now().Add(patience); time.Now().Before(until); {
		for range 4 {
			if w.turn(); w.broken != "" {
				return true
			}
		}
		if holds() {
			return true
		}
		w.pass(w.control.idle())
	}
	return false
}

// without is a list without an element.
func without[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(e T) bool { return e == one })
}
