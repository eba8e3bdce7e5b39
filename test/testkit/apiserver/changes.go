//go:build integration

package apiserver

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"howdah.dev/apis/v1alpha1"
)

// poll is how often those look who wait for something that no object shows: the clock of a test, the answer of an agent.
const poll = 150 * time.Millisecond

// gather is how long changes are gathered before somebody looks at them: a pass writes several objects, one soon after the other.
const gather = 5 * time.Millisecond

// watched are the kinds of Kubernetes' own that controllers and those who stand in for others write.
var watched = []schema.GroupVersionResource{
	{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "persistentvolumeclaims"}, {Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

// changes tells who waits that an object of a namespace has changed. Asking the API server again and again instead cost more
// than all else that the tests of a package do.
var changes = struct {
	sync.Mutex
	next map[string]chan struct{} // by namespace; closed with the next change
}{next: map[string]chan struct{}{}}

// Changed is closed when something in this namespace has changed since the call.
func Changed(namespace string) <-chan struct{} {
	changes.Lock()
	defer changes.Unlock()
	if changes.next[namespace] == nil {
		changes.next[namespace] = make(chan struct{})
	}
	return changes.next[namespace]
}

func tell(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	changed, ok := object.(metav1.Object)
	if !ok {
		return
	}
	changes.Lock()
	defer changes.Unlock()
	if waiting := changes.next[changed.GetNamespace()]; waiting != nil {
		close(waiting)
		delete(changes.next, changed.GetNamespace())
	}
}

// watch has the tests of the package told of changes.
func watch(ctx context.Context) error {
	clients, err := metadata.NewForConfig(Config())
	if err != nil {
		return err
	}
	kinds, err := ours()
	if err != nil {
		return err
	}
	factory := metadatainformer.NewSharedInformerFactory(clients, 0)
	for _, kind := range append(kinds, watched...) {
		_, err := factory.ForResource(kind).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }, DeleteFunc: tell,
		})
		if err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

// ours are the suite's kinds.
func ours() ([]schema.GroupVersionResource, error) {
	asking, err := discovery.NewDiscoveryClientForConfig(Config())
	if err != nil {
		return nil, err
	}
	list, err := asking.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return nil, err
	}
	var kinds []schema.GroupVersionResource
	for _, kind := range list.APIResources {
		if kind.Namespaced && !strings.Contains(kind.Name, "/") {
			kinds = append(kinds, v1alpha1.GroupVersion.WithResource(kind.Name))
		}
	}
	return kinds, nil
}

// Eventually looks at every change in a namespace whether something holds. False: it didn't within the time.
func Eventually(namespace string, limit time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(limit)
	for {
		changed := Changed(namespace)
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		await(context.Background(), changed)
	}
}

// await returns with the change, or when it is time to look without one.
func await(ctx context.Context, changed <-chan struct{}) {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
		time.Sleep(gather)
	case <-timer.C:
	}
}

// StandIn does what others would do in a namespace, whenever something changes there, until the test ends.
func StandIn(t *testing.T, namespace string, do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			changed := Changed(namespace)
			do(ctx)
			await(ctx, changed)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}
