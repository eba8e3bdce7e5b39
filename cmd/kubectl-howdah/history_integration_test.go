//go:build integration

package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
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
