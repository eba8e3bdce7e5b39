package worlds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/dbcontroller"
	"howdah.dev/howdah/cmd/restore-controller/restorecontroller"
	"howdah.dev/howdah/cmd/upgrade-controller/upgradecontroller"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/memapi"
)

// controllers are all of them.
var controllers = []string{dbController, upgradeController, restoreController}

// errDead is what a dead process gets of every request.
var errDead = errors.New("this process is dead")

const (
	dbController      = "db-controller"
	upgradeController = "upgrade-controller"
	restoreController = "restore-controller"
)

// reconciler is what a process runs.
type reconciler interface {
	Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error)
}

// process is one of a controller. Its memory ends with it.
type process struct {
	world      *World
	name       string
	number     int
	cache      *memapi.Cache
	reconciler reconciler
	woken      func(context.Context, client.Object) []reconcile.Request
	// tick is what it does every now and then; nil: nothing.
	tick func()

	mu       sync.Mutex
	due      map[reconcile.Request]time.Time
	failures map[reconcile.Request]int

	// begins is when it is elected as the leader.
	begins time.Time
	dead   bool
	// lives for this many writes, if it isn't 0; the last one may get through.
	lives int
	// holdAt is the write before which it is held up, if it isn't 0, or holdKind the kind of what it would write; held is how it continues.
	holdAt   int
	holdKind string
	held     chan struct{}
	// ghost: it has a successor, and has yet to notice. passes are those that are left to it.
	ghost  bool
	passes int
}

func (p *process) String() string { return fmt.Sprintf("%s %d", p.name, p.number) }

// control is all processes.
type control struct {
	world     *World
	ctx       context.Context
	processes []*process
	numbers   map[string]int
}

func newControl(w *World) *control { return &control{world: w, numbers: map[string]int{}} }

func (c *control) start(ctx context.Context) {
	c.ctx = ctx
	for _, name := range controllers {
		c.launch(name, 0)
	}
}

// launch a process, which has listed everything by the time that it begins.
func (c *control) launch(name string, after time.Duration) {
	w := c.world
	c.numbers[name]++
	p := &process{
		world: w, name: name, number: c.numbers[name], begins: time.Now().Add(after),
		due: map[reconcile.Request]time.Time{}, failures: map[reconcile.Request]int{},
	}
	p.cache = w.server.NewCache()
	dependencies := manager.Dependencies{
		Client: w.server.Client(p.cache, p.request), Live: w.server.Client(nil, p.request), Events: quiet{}, Now: time.Now,
		Agent: workload.Agent{Image: "agent:1"}, Images: manager.Images{17: "postgres:17", 18: "postgres:18"},
	}
	var first client.ObjectList
	switch name {
	case dbController:
		d := dbcontroller.New(dependencies, wire{p}, func() float64 { return 0.5 }, func(name types.NamespacedName) {
			p.wake(reconcile.Request{NamespacedName: name}, 0)
		})
		p.reconciler, p.tick = d, d.AskAgents
		p.woken, first = dbcontroller.Woken, &v1alpha1.PostgresClusterList{}
	case upgradeController:
		u := upgradecontroller.New(dependencies)
		p.reconciler, p.woken, first = u, u.Woken, &v1alpha1.UpgradeList{}
	case restoreController:
		open := func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
			return w.bucket, nil
		}
		r := restorecontroller.New(c.ctx, dependencies, open, func(restore client.Object) {
			p.wake(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(restore)}, 0)
		})
		p.reconciler, p.woken, first = r, r.Woken, &v1alpha1.RestoreList{}
	}
	c.processes = append(c.processes, p)
	p.wakeAll(first)
	w.say("%s starts", p)
}

// quiet records no events.
type quiet struct{ events.EventRecorder }

func (quiet) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// wakeAll has a process look at everything, as with its first list.
func (p *process) wakeAll(list client.ObjectList) {
	if p.world.api.List(p.world.control.ctx, list) != nil {
		return
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		p.wake(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))}, 0)
		return nil
	})
}

func (p *process) wake(request reconcile.Request, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(after)
	if before, is := p.due[request]; !is || at.Before(before) {
		p.due[request] = at
	}
}

// next request that is due; false: none is.
func (p *process) next() (reconcile.Request, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var best reconcile.Request
	found := false
	for request, at := range p.due {
		if at.After(time.Now()) {
			continue
		}
		if !found || cmp.Or(at.Compare(p.due[best]), strings.Compare(request.Name, best.Name)) < 0 {
			best, found = request, true
		}
	}
	delete(p.due, best)
	return best, found
}

// request is what becomes of a request to the API server.
func (p *process) request(call memapi.Call, do func() error) error {
	if p.dead {
		return errDead
	}
	if !call.Writes {
		return do()
	}
	if p.holds(call) {
		p.world.say("%s is held up before it would %s", p, call)
		p.held = make(chan struct{})
		<-p.held
		p.held = nil
		if p.dead {
			return errDead
		}
	}
	if p.lives > 0 {
		if p.lives--; p.lives == 0 {
			p.dead = true
			if p.world.chance(2) {
				err := do()
				p.world.say("%s: %s%s, and dies", p, call, failed(err))
			} else {
				p.world.say("%s dies before it would %s", p, call)
			}
			return errDead
		}
	}
	err := do()
	p.world.say("%s: %s%s", p, call, failed(err))
	return err
}

// holds says whether a process is held up before a write.
func (p *process) holds(call memapi.Call) bool {
	if p.holdKind == call.Kind {
		p.holdKind = ""
		return true
	}
	if p.holdAt > 0 {
		p.holdAt--
		return p.holdAt == 0
	}
	return false
}

func failed(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%s)", err)
}

// reconcile is one pass of a process. A pass that is held up continues later.
func (p *process) reconcile(ctx context.Context, request reconcile.Request) {
	go func() {
		result, err := p.reconciler.Reconcile(ctx, request)
		p.after(request, result, err)
	}()
	synctest.Wait()
}

// after a pass, as the queue of a controller has it.
func (p *process) after(request reconcile.Request, result reconcile.Result, err error) {
	switch {
	case p.dead:
	case err != nil:
		if strings.Contains(err.Error(), "memapi: ") {
			p.world.breaks("%s: %s", p, err)
		}
		p.failures[request]++
		p.wake(request, min(1000*time.Second, 5*time.Millisecond<<min(p.failures[request], 20)))
	case result.RequeueAfter > 0:
		delete(p.failures, request)
		p.wake(request, result.RequeueAfter)
	default:
		delete(p.failures, request)
	}
}

// pass of one process that has something to do; false: none has.
func (c *control) pass() bool {
	all := slices.Clone(c.processes)
	c.world.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all {
		if p.dead || p.held != nil || time.Now().Before(p.begins) {
			continue
		}
		request, is := p.next()
		if !is {
			continue
		}
		p.reconcile(c.ctx, request)
		c.bury(p)
		return true
	}
	return false
}

// bury a process that has died or has come to its end, and launch its successor.
func (c *control) bury(p *process) {
	if p.ghost && !p.dead && p.held == nil {
		p.passes--
		p.dead = p.passes <= 0
	}
	if !p.dead {
		return
	}
	c.processes = without(c.processes, p)
	if !p.ghost {
		c.launch(p.name, time.Duration(c.world.random.IntN(20))*time.Second)
	}
}

// tell processes of what has changed: some of it, or everything.
func (c *control) tell(everything bool) {
	for _, p := range c.processes {
		var changes []memapi.Change
		switch {
		case everything:
			changes = p.cache.CatchUp()
		case p.ghost && c.world.chance(2):
		default:
			changes = p.cache.Advance(c.world.random)
		}
		for _, change := range changes {
			for _, object := range []client.Object{change.Old, change.Now} {
				if object == nil {
					continue
				}
				for _, request := range p.woken(c.ctx, object) {
					p.wake(request, 0)
				}
			}
		}
	}
}

// present is for how long each controller has had a process that acts.
func (c *control) present() time.Duration {
	all := time.Since(c.world.began)
	for _, name := range controllers {
		longest := time.Duration(0)
		for _, p := range c.processes {
			if p.name == name && !p.dead && !p.ghost && p.held == nil {
				longest = max(longest, time.Since(p.begins))
			}
		}
		all = min(all, longest)
	}
	return all
}

// tick has processes do what they do every now and then.
func (c *control) tick() {
	for _, p := range c.processes {
		if p.tick != nil && !p.dead && p.held == nil {
			p.tick()
		}
	}
	synctest.Wait()
}

// end of all processes.
func (c *control) end() {
	for _, p := range c.processes {
		p.dead = true
		if p.held != nil {
			close(p.held)
		}
	}
	time.Sleep(time.Minute) // whoever still waits for an agent gives up
	synctest.Wait()
}

// idle is how long nothing is due for any process.
func (c *control) idle() time.Duration {
	wait := 5 * time.Second
	for _, p := range c.processes {
		p.mu.Lock()
		for _, at := range p.due {
			wait = min(wait, max(100*time.Millisecond, time.Until(at)))
		}
		p.mu.Unlock()
	}
	return wait
}
