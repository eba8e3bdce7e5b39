//go:build integration

package restore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// mortal is the client of a process that dies with its first write: whatever else it does never reaches the API server. What
// its cache shows first may be what was there before the last write of the process before it.
type mortal struct {
	client.Client
	died chan struct{}
	// catchUp has the cache tell of the Restore once more, as one does that was behind.
	catchUp func(*v1alpha1.Restore)

	mu sync.Mutex
	// seen is the Restore as the last pass saw it that was not behind; stale is what the first passes see.
	seen, stale *v1alpha1.Restore
	left        int // passes that see stale
	wrote       string
}

var errDead = errors.New("this process is dead")

// stalePasses are how many passes of a new process see the Restore as it was before the last write: the second of them knows
// from its own write, or its conflict, nothing more than the first.
const stalePasses = 2

func (l *lab) newMortal(alive client.Client, before *mortal) *mortal {
	m := &mortal{Client: alive, died: make(chan struct{}), catchUp: l.wake}
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		m.stale, m.left = before.seen, stalePasses
	}
	return m
}

// Get of the Restore is how a pass begins.
func (m *mortal) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	restore, isRestore := o.(*v1alpha1.Restore)
	if !isRestore {
		return m.Client.Get(ctx, key, o, opts...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stale != nil && m.left > 0 {
		m.left--
		m.stale.DeepCopyInto(restore)
		go m.catchUp(m.stale)
		return nil
	}
	err := m.Client.Get(ctx, key, o, opts...)
	if err == nil {
		m.seen = restore.DeepCopy()
	}
	return err
}

// wake writes something that wakes the controller, and that nobody goes by.
func (l *lab) wake(restore *v1alpha1.Restore) {
	mark := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/woken":%q}}}`, rand.Text()))
	_ = l.Patch(context.Background(), restore.DeepCopy(), mark) // it may be gone
}

func (m *mortal) do(what string, write func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrote != "" {
		return errDead
	}
	err := write()
	if err == nil {
		m.wrote = what
		close(m.died)
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

// dieAtEachWrite lets one controller after the other live for one write, until the function that it returns is called; that
// returns what they wrote.
func (l *lab) dieAtEachWrite() (stop func() []string) {
	l.stop()
	l.mortal = true
	l.startController()
	quit, done := make(chan struct{}), make(chan struct{})
	var wrote []string
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-l.process.died:
				wrote = append(wrote, strings.ReplaceAll(l.process.wrote, "*v1alpha1.", ""))
				l.stop()
				l.startController()
			}
		}
	}()
	end := sync.OnceFunc(func() { close(quit); <-done })
	l.Cleanup(end)
	return func() []string { end(); return wrote }
}
