//go:build integration

// Package mortal has controllers die with each of their writes, one after the other, and begin again on caches that are behind.
package mortal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	random "math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Behind says of what objects the cache of a new process is behind.
type Behind func(client.Object) bool

// Only objects of the kind of this one are behind.
func Only(o client.Object) Behind {
	return func(other client.Object) bool { return reflect.TypeOf(o) == reflect.TypeOf(other) }
}

// AllBut objects of the kind of this one are behind.
func AllBut(o client.Object) Behind {
	only := Only(o)
	return func(other client.Object) bool { return !only(other) }
}

// Draw leaves one of the caches to a short run, which is another one the next time.
func Draw(caches map[string]Behind) map[string]Behind {
	if !testing.Short() {
		return caches
	}
	name := slices.Sorted(maps.Keys(caches))[random.IntN(len(caches))]
	return map[string]Behind{name: caches[name]}
}

// Some leaves half of the stories to a short run, which are others the next time.
func Some[Story any](stories map[string]Story) map[string]Story {
	if !testing.Short() {
		return stories
	}
	names := slices.Sorted(maps.Keys(stories))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	some := map[string]Story{}
	for _, name := range names[:(len(names)+1)/2] {
		some[name] = stories[name]
	}
	return some
}

// Process is one controller.
type Process struct {
	// Wrap makes the client that the controller is to write with, and to read with from its cache.
	Wrap func(client.Client) client.Client
	// died is closed with its first write.
	died  chan struct{}
	wrote string
}

// Run starts a controller whenever the one before it has died, until the function that it returns is called; that returns what
// they wrote. start returns how the controller is stopped. subject is of the kind that the controller works on: wherever a cache
// was behind, it tells of that again, as one does that has caught up.
func Run(t *testing.T, direct client.Client, subject client.Object, behind Behind, start func(*Process) (stop func())) (stop func() []string) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	var wrote []string
	go func() {
		defer close(done)
		for before := map[string]sight{}; ; {
			m := &mortal{direct: direct, subject: Only(subject), behind: behind, before: before, seen: map[string]sight{}, left: map[string]int{}, subjects: map[string]client.Object{}}
			m.process = &Process{died: make(chan struct{})}
			m.process.Wrap = func(c client.Client) client.Client { m.Client = c; return m }
			end := start(m.process)
			if !m.live(quit) { // the last one lives on, and writes no more than once
				return
			}
			end()
			wrote = append(wrote, strings.ReplaceAll(m.process.wrote, "*v1alpha1.", ""))
			before = m.seen
		}
	}()
	finish := sync.OnceFunc(func() { close(quit); <-done })
	t.Cleanup(finish)
	return func() []string { finish(); return wrote }
}

// Wake writes something that wakes the controller of an object, and that nobody goes by.
func Wake(c client.Client, o client.Object) {
	mark := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/woken":%q}}}`, rand.Text()))
	_ = c.Patch(context.Background(), o.DeepCopyObject().(client.Object), mark) // it may be gone
}

// sight is what was there of an object when a process looked last.
type sight struct {
	object client.Object
	err    error // that it is not there
}

// mortal is the client of a process that dies with its first write: whatever else it does never reaches the API server. What
// its cache shows first may be what was there before the last write of the process before it.
type mortal struct {
	client.Client
	process *Process
	direct  client.Client
	subject Behind
	behind  Behind

	mu           sync.Mutex
	before, seen map[string]sight
	left         map[string]int           // passes that have seen an object as before
	subjects     map[string]client.Object // that were seen
	deceived     bool                     // by what was there before, since it was woken
}

// catchUp is how long a cache is behind: longer than a pass takes, which what wakes the controller would disturb.
const catchUp = 300 * time.Millisecond

// live waits for the death of a process, and wakes it when its cache has caught up. False: it is to continue.
func (m *mortal) live(quit <-chan struct{}) bool {
	for tick := time.Tick(catchUp); ; {
		select {
		case <-quit:
			return false
		case <-m.process.died:
			return true
		case <-tick:
			m.mu.Lock()
			subjects, deceived := slices.Collect(maps.Values(m.subjects)), m.deceived
			m.deceived = false
			m.mu.Unlock()
			if !deceived {
				continue
			}
			for _, subject := range subjects { // any of them may have been deceived
				Wake(m.direct, subject)
			}
		}
	}
}

var errDead = errors.New("this process is dead")

// stalePasses are how many passes of a new process see an object as it was before the last write: the second of them knows
// from its own write, or its conflict, nothing more than the first.
const stalePasses = 2

// Get of the subject is how a pass begins.
func (m *mortal) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process.wrote != "" {
		return errDead
	}
	name := fmt.Sprintf("%T %s", o, key)
	now := sight{err: m.Client.Get(ctx, key, o, opts...)}
	now.object = o.DeepCopyObject().(client.Object)
	if now.err != nil && !apierrors.IsNotFound(now.err) {
		return now.err
	}
	m.seen[name] = now
	if now.err == nil && m.subject(o) {
		m.subjects[name] = now.object
	}
	former, known := m.before[name]
	if !known || !m.behind(o) || m.left[name] == stalePasses {
		return now.err
	}
	m.left[name]++
	m.deceived = true
	if former.err == nil {
		reflect.ValueOf(o).Elem().Set(reflect.ValueOf(former.object.DeepCopyObject()).Elem())
	}
	return former.err
}

func (m *mortal) do(what string, write func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process.wrote != "" {
		return errDead
	}
	err := write()
	if err == nil {
		m.process.wrote = what
		close(m.process.died)
	}
	return err
}

func (m *mortal) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return m.do(fmt.Sprintf("create %T %s", o, o.GetName()), func() error { return m.Client.Create(ctx, o, opts...) })
}

func (m *mortal) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return m.do(fmt.Sprintf("patch %T %s", o, o.GetName()), func() error { return m.Client.Patch(ctx, o, p, opts...) })
}

func (m *mortal) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return m.do(fmt.Sprintf("delete %T %s", o, o.GetName()), func() error { return m.Client.Delete(ctx, o, opts...) })
}

func (m *mortal) Status() client.SubResourceWriter { return &mortalStatus{m.Client.Status(), m} }

type mortalStatus struct {
	client.SubResourceWriter
	mortal *mortal
}

func (s *mortalStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	what, _ := p.Data(o)
	return s.mortal.do("status "+string(what), func() error { return s.SubResourceWriter.Patch(ctx, o, p, opts...) })
}
