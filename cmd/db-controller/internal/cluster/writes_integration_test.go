//go:build integration

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
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
	// stuck is what the cache shows of the cluster, whatever becomes of it; nil: what it is.
	stuck *v1alpha1.PostgresCluster
	// seen is what the annotation of lab.passes said at the beginning of the last pass.
	seen string
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

// stick has the cache show the cluster as it is there, until it is nil.
func (c *writeCounter) stick(cluster *v1alpha1.PostgresCluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = cluster
}

// Get of a cluster is how a pass begins.
func (c *writeCounter) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	if cluster, isCluster := o.(*v1alpha1.PostgresCluster); isCluster {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stuck != nil {
			c.stuck.DeepCopyInto(cluster)
		}
		c.seen = o.GetAnnotations()[annotationSeen]
	}
	return err
}

func (c *writeCounter) hasSeen(mark string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen == mark
}

const annotationSeen = "example.com/seen"

// passes wakes the controller this many times with something that changes nothing for it, and waits until as many passes are
// over: one is when the next has begun.
func (l *lab) passes(cluster *v1alpha1.PostgresCluster, count int) {
	l.Helper()
	for n := range count + 1 {
		mark := fmt.Sprintf("%d of %s", n, rand.Text())
		l.change(cluster, func() { metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, annotationSeen, mark) })
		l.eventually("a pass", func() bool { return l.writes.hasSeen(mark) })
	}
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
