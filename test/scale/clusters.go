package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

const (
	// perNamespace is how many clusters a namespace has.
	perNamespace = 10
	// major version and release of all clusters.
	major, release = 17, "17.5"
)

func namespace(i int) string { return fmt.Sprintf("scale-%d", i/perNamespace) }

func (b *bench) key(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace(i), Name: fmt.Sprintf("shop-%d", i)}
}

// namespaces of the clusters.
func (b *bench) namespaces() []string {
	var names []string
	for i := 0; i < b.n; i += perNamespace {
		names = append(names, namespace(i))
	}
	return names
}

// seed creates the clusters, and waits until all are Ready.
func (b *bench) seed(ctx context.Context) error {
	begin := time.Now()
	for i := range b.n {
		key := b.key(i)
		if i%perNamespace == 0 {
			if err := b.live.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}); err != nil {
				return err
			}
		}
		cluster := &v1alpha1.PostgresCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       v1alpha1.PostgresClusterSpec{Version: major, Instances: b.settings.instances, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
		}
		if err := b.live.Create(ctx, cluster); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	_, err := b.await(ctx, fmt.Sprintf("%d clusters are Ready", b.n), b.all(ctx, isReady))
	b.note("create", "s until all are Ready", "%.0f", time.Since(begin).Seconds())
	return err
}

func isReady(cluster *v1alpha1.PostgresCluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady)
}

// all says whether something holds of all clusters.
func (b *bench) all(ctx context.Context, holds func(*v1alpha1.PostgresCluster) bool) func() bool {
	return func() bool {
		time.Sleep(100 * time.Millisecond)
		clusters := &v1alpha1.PostgresClusterList{}
		if b.client.List(ctx, clusters, client.UnsafeDisableDeepCopy) != nil || len(clusters.Items) != b.n {
			return false
		}
		for i := range clusters.Items {
			if !holds(&clusters.Items[i]) {
				return false
			}
		}
		return true
	}
}

// patchAll patches the spec of all clusters.
func (b *bench) patchAll(ctx context.Context, patch string) error {
	return each(ctx, b.n, func(ctx context.Context, i int) error { return b.patch(ctx, b.key(i), patch) })
}

func (b *bench) patch(ctx context.Context, key client.ObjectKey, patch string) error {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	return b.live.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(patch)))
}
