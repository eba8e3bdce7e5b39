//go:build integration

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/history"
	"howdah.dev/howdah/pkg/spechistory"
)

// changed is a cluster of which two specs are kept: one with two instances, and the present one, with three and a larger volume.
func changed(t *testing.T) (client.Client, *v1alpha1.PostgresCluster) {
	t.Helper()
	c, cluster := newCluster(t, func(spec *v1alpha1.PostgresClusterSpec) { spec.Instances = 2 })
	for n := range int64(2) {
		if n == 1 {
			cluster.Spec.Instances, cluster.Spec.Storage.Size = 3, resource.MustParse("2Gi")
			must(t, c.Update(t.Context(), cluster))
		}
		revision, err := spechistory.Revision(cluster)
		must(t, err)
		revision.Revision = n + 1
		must(t, c.Create(t.Context(), revision))
	}
	return c, cluster
}

// says fails unless all of this was said.
func says(t *testing.T, out string, all ...string) {
	t.Helper()
	for _, text := range all {
		if !strings.Contains(out, text) {
			t.Errorf("%q isn't said:\n%s", text, out)
		}
	}
}

func TestAPersonSeesWhatEachRevisionChanged(t *testing.T) {
	c, cluster := changed(t)
	cluster.Spec.Instances = 4
	must(t, c.Update(t.Context(), cluster))
	var out strings.Builder
	must(t, history.Show(t.Context(), c, client.ObjectKeyFromObject(cluster), &out))
	says(t, out.String(), "REVISION", "(the oldest that is kept)", "spec.instances: 2 -> 3", `spec.storage.size: "1Gi" -> "2Gi"`, "(spec)", "spec.instances: 3 -> 4")
}

func TestAPersonGoesBackAndIsToldWhatStays(t *testing.T) {
	c, cluster := changed(t)
	key, out := client.ObjectKeyFromObject(cluster), &strings.Builder{}
	if err := (history.Rollback{In: strings.NewReader("no\n"), Out: out}).Carry(t.Context(), c, key); err == nil {
		t.Error("it is done although the person doesn't want it")
	}
	must(t, c.Get(t.Context(), key, cluster))
	if cluster.Spec.Instances != 3 {
		t.Fatalf("there are %d instances", cluster.Spec.Instances)
	}
	must(t, history.Rollback{In: strings.NewReader("shop\n"), Out: out}.Carry(t.Context(), c, key))
	must(t, c.Get(t.Context(), key, cluster))
	if cluster.Spec.Instances != 2 || cluster.Spec.Storage.Size.String() != "2Gi" {
		t.Errorf("it is %+v", cluster.Spec)
	}
	says(t, out.String(), "Revision 1 changes:\n  spec.instances: 3 -> 2", "spec.storage.size stays 2Gi", "The spec of shop is that of revision 1.")
}

func TestARevisionThatIsNotKeptIsNamed(t *testing.T) {
	c, cluster := changed(t)
	err := history.Rollback{To: 7, Yes: true}.Carry(t.Context(), c, client.ObjectKeyFromObject(cluster))
	if err == nil || !strings.Contains(err.Error(), "there is no revision 7 of shop; kubectl howdah history shop lists") {
		t.Error(err)
	}
}

// A later version of the suite may have fields that this program doesn't know.
func TestARollbackLeavesFieldsThatItDoesNotKnow(t *testing.T) {
	c, cluster := changed(t)
	key, crd := client.ObjectKeyFromObject(cluster), &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	must(t, c.Get(t.Context(), client.ObjectKey{Name: "postgresclusters.howdah.dev"}, crd))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	must(t, err)
	must(t, unstructured.SetNestedField(versions[0].(map[string]any), "string", "schema", "openAPIV3Schema", "properties", "spec", "properties", "later", "type"))
	before := crd.DeepCopy()
	must(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	must(t, c.Patch(t.Context(), crd.DeepCopy(), client.MergeFrom(before)))
	t.Cleanup(func() { _ = c.Patch(context.Background(), before.DeepCopy(), client.MergeFrom(crd)) })
	later := func() string {
		raw := &unstructured.Unstructured{}
		raw.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindPostgresCluster))
		must(t, c.Get(t.Context(), key, raw))
		value, _, _ := unstructured.NestedString(raw.Object, "spec", "later")
		return value
	}
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"later":"set"}}`))
		return c.Patch(ctx, &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, patch) == nil && later() == "set", nil
	}))
	must(t, history.Rollback{Yes: true, Out: io.Discard}.Carry(t.Context(), c, key))
	must(t, c.Get(t.Context(), key, cluster))
	if cluster.Spec.Instances != 2 || later() != "set" {
		t.Errorf("%d instances, and the field that it doesn't know is %q", cluster.Spec.Instances, later())
	}
}

// meanwhile is a client before whose first write somebody else writes.
type meanwhile struct {
	client.Client
	write func()
}

func (m *meanwhile) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if len(options) == 0 {
		m.write()
	}
	return m.Client.Patch(ctx, object, patch, options...)
}

func TestARollbackOverwritesNothingThatChangedMeanwhile(t *testing.T) {
	c, cluster := changed(t)
	key := client.ObjectKeyFromObject(cluster)
	err := history.Rollback{Yes: true, Out: io.Discard}.Carry(t.Context(), &meanwhile{c, func() {
		must(t, c.Get(t.Context(), key, cluster))
		cluster.Spec.Instances = 4
		must(t, c.Update(t.Context(), cluster))
	}}, key)
	must(t, c.Get(t.Context(), key, cluster))
	if !apierrors.IsConflict(err) || cluster.Spec.Instances != 4 {
		t.Errorf("%d instances: %v", cluster.Spec.Instances, err)
	}
}
