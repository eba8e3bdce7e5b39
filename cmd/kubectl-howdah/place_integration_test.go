//go:build integration

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

// TestMain starts one API server for all commands: each package would need one of its own.
func TestMain(m *testing.M) { apiserver.Main(m) }

// newCluster creates shop, in a namespace of its own.
func newCluster(t *testing.T, change func(*v1alpha1.PostgresClusterSpec)) (client.Client, *v1alpha1.PostgresCluster) {
	t.Helper()
	c := apiserver.Client(t)
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace(t, c), Name: "shop"},
		Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Instances: 3, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	}
	if change != nil {
		change(&cluster.Spec)
	}
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return c, cluster
}

// command is a request to the db-controller that may wait for what comes of it.
type command interface {
	Ask(context.Context, client.Client, client.ObjectKey, io.Writer) error
}

// ask runs a command on a new cluster. Once its request is there, respond stands in for the db-controller, and for somebody else who
// changes the spec.
func ask(t *testing.T, run command, change func(*v1alpha1.PostgresClusterSpec), requested func(v1alpha1.PostgresClusterSpec) bool, respond func(*v1alpha1.PostgresCluster)) (string, error) {
	t.Helper()
	c, cluster := newCluster(t, change)
	key, responded := client.ObjectKeyFromObject(cluster), make(chan error, 1)
	go func() {
		responded <- wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			seen := &v1alpha1.PostgresCluster{}
			if err := c.Get(ctx, key, seen); err != nil || !requested(seen.Spec) {
				return false, err
			}
			before := seen.DeepCopy()
			respond(seen)
			if err := c.Patch(ctx, seen.DeepCopy(), client.MergeFrom(before)); err != nil {
				return false, err
			}
			return true, c.Status().Patch(ctx, seen, client.MergeFrom(before))
		})
	}()
	var out strings.Builder
	err := run.Ask(t.Context(), c, key, &out)
	if failed := <-responded; failed != nil {
		t.Fatal(failed)
	}
	return out.String(), err
}

// must ends a test that can't continue.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
