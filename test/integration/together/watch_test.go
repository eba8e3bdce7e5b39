//go:build integration

package together

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// watchHolders judges every state that any cluster is ever in, and tells of it, until the function that it returns is called.
func watchHolders(t *testing.T) (states <-chan struct{}, stop func()) {
	t.Helper()
	c, err := client.NewWithWatch(apiserver.Config(), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	watch, err := c.Watch(ctx, &v1alpha1.PostgresClusterList{})
	if err != nil {
		t.Fatal(err)
	}
	done, tell := make(chan struct{}), make(chan struct{}, 1000)
	go func() {
		defer close(done)
		seen := 0
		for event := range watch.ResultChan() {
			if cluster, ok := event.Object.(*v1alpha1.PostgresCluster); ok {
				seen++
				judgeHolds(t, cluster)
				select {
				case tell <- struct{}{}:
				default: // nobody listens any more
				}
			} else if ctx.Err() == nil {
				t.Errorf("the watch says %+v", event)
			}
		}
		t.Logf("%d states of clusters were seen", seen)
	}()
	return tell, func() { cancel(); <-done }
}

// judgeHolds: at most one holds, and the others are told behind whom they are.
func judgeHolds(t *testing.T, cluster *v1alpha1.PostgresCluster) {
	holder := ""
	for _, answer := range cluster.Status.VolumeLocks {
		if answer.State != v1alpha1.VolumeLockGranted && answer.State != v1alpha1.VolumeLockAdopted {
			continue
		}
		if holder != "" {
			t.Errorf("%s: both %s and %s hold the cluster: %+v", cluster.Namespace, holder, answer.Name, cluster.Status.VolumeLocks)
		}
		holder = answer.Kind + " " + answer.Name
	}
	for _, answer := range cluster.Status.VolumeLocks {
		if want := fmt.Sprintf("Waiting until %s gives the volumes back.", holder); answer.State == v1alpha1.VolumeLockQueued && holder != "" && answer.Message != want {
			t.Errorf("%s: %s %s is told %q, not %q", cluster.Namespace, answer.Kind, answer.Name, answer.Message, want)
		}
	}
}
