package protocol

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func releaseOf(generation string) v1alpha1.Restore {
	r := v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "r"}}
	r.Status.Release = &v1alpha1.ReleaseRequest{Cluster: "shop", ClusterUID: "c", DataGeneration: generation}
	return r
}

func TestADataGenerationIsReleasedOnlyWhenNobodyNeedsIt(t *testing.T) {
	elsewhere, other := releaseOf("g2"), releaseOf("g2")
	elsewhere.Namespace, other.Status.Release.ClusterUID = "other", "d"
	handover := []LockRequest{{Handover: &v1alpha1.Handover{DataGeneration: "g2"}}}
	for name, test := range map[string]struct {
		restores []v1alpha1.Restore
		upgrade  *v1alpha1.ReleaseRequest
		asks     []LockRequest
		want     []string
	}{
		"nobody asks":              {nil, nil, nil, []string{"g0"}},
		"one asks":                 {[]v1alpha1.Restore{releaseOf("g2")}, nil, nil, []string{"g0", "g2"}},
		"one asks again":           {[]v1alpha1.Restore{releaseOf("g0"), {}}, nil, nil, []string{"g0"}},
		"what the cluster runs on": {[]v1alpha1.Restore{releaseOf("g1")}, nil, nil, []string{"g0"}},
		"what is handed over":      {[]v1alpha1.Restore{releaseOf("g2")}, nil, handover, []string{"g0"}},
		"another cluster's":        {[]v1alpha1.Restore{elsewhere, other}, nil, nil, []string{"g0"}},
		"an Upgrade asks":          {nil, releaseOf("g2").Status.Release, nil, []string{"g0", "g2"}},
		"nothing":                  {[]v1alpha1.Restore{releaseOf("")}, nil, nil, []string{"g0"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", UID: "c"}}
			cluster.Status.DataGeneration, cluster.Status.ReleasedDataGenerations = "g1", []string{"g0"}
			upgrade := v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}
			upgrade.Status.Release = test.upgrade
			asked := ReleaseRequests(cluster, test.restores, []v1alpha1.Upgrade{upgrade})
			if got := Release(cluster, asked, test.asks); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestOnlyTheLatestReleasesAreRemembered(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", UID: "c"}}
	for i := range 20 {
		cluster.Status.ReleasedDataGenerations = Release(cluster, ReleaseRequests(cluster, []v1alpha1.Restore{releaseOf(fmt.Sprint("g", i))}, nil), nil)
	}
	last := releaseOf("g19")
	if got := cluster.Status.ReleasedDataGenerations; len(got) != 16 || got[0] != "g4" || !Released(cluster, last.Status.Release) {
		t.Errorf("got %v", got)
	}
}
