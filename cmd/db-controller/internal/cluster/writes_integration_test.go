//go:build integration

package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeCounter counts what the controller writes.
type writeCounter struct {
	client.Client
	mu     sync.Mutex
	wrote  []string
	mortal bool
	left   int
	died   chan struct{}
	// hidden pods are not in the cache yet.
	hidden []string
}

var errDead = errors.New("this process is dead")

// do counts a write that changes something; after the last one that a mortal controller has, nothing of it reaches the
// API server.
func (c *writeCounter) do(what string, write func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mortal && c.left == 0 {
		select {
		case <-c.died:
		default:
			close(c.died)
		}
		return errDead
	}
	err := write()
	if err == nil || !c.mortal {
		c.left--
		c.wrote = append(c.wrote, what)
	}
	return err
}

// since is what was written after a mark.
func (c *writeCounter) since(mark int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.wrote[mark:]...)
}

func (c *writeCounter) mark() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.wrote)
}

// List is what the cache holds.
func (c *writeCounter) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if pods, ok := list.(*corev1.PodList); ok {
		pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return slices.Contains(c.hidden, pod.Name) })
	}
	return err
}

func (c *writeCounter) hide(pods ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = pods
}

func (c *writeCounter) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.do("create "+o.GetName(), func() error { return c.Client.Create(ctx, o, opts...) })
}

func (c *writeCounter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.do("patch "+o.GetName(), func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

func (c *writeCounter) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.do("delete "+o.GetName(), func() error { return c.Client.Delete(ctx, o, opts...) })
}

func (c *writeCounter) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.do("apply", func() error { return c.Client.Apply(ctx, o, opts...) })
}

func (c *writeCounter) Status() client.SubResourceWriter {
	return &statusCounter{c.Client.Status(), c}
}

type statusCounter struct {
	client.SubResourceWriter
	counter *writeCounter
}

func (c *statusCounter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.counter.do("patch status of "+o.GetName(), func() error { return c.SubResourceWriter.Patch(ctx, o, p, opts...) })
}
