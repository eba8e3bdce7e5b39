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
			if got := Release(cluster, asked, test.asks, nil); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestOnlyTheLatestReleasesAreRemembered(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", UID: "c"}}
	for i := range 20 {
		cluster.Status.ReleasedDataGenerations = Release(cluster, ReleaseRequests(cluster, []v1alpha1.Restore{releaseOf(fmt.Sprint("g", i))}, nil), nil, nil)
	}
	last := releaseOf("g19")
	if got := cluster.Status.ReleasedDataGenerations; len(got) != 16 || got[0] != "g4" || !Released(cluster, last.Status.Release) {
		t.Errorf("got %v", got)
	}
}

// After a restore of etcd, a person may have chosen data that an earlier Restore replaced. A later Restore leads back to it, whatever the earlier one
// asks for when its time is over.
func TestPreviousDataThatMayBeWantedBackIsNotReleased(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", UID: "c"}}
	cluster.Status.DataGeneration = "g2"
	asked := []v1alpha1.ReleaseRequest{{ClusterUID: "c", DataGeneration: "g0"}}
	for undoable, want := range map[bool][]string{true: nil, false: {"g0"}} {
		if got := Release(cluster, asked, nil, []Writer{{Wrote: "g2", Previous: "g0", Undoable: undoable}}); !slices.Equal(got, want) {
			t.Errorf("undoable %t: released %v, want %v", undoable, got, want)
		}
	}
}

func TestABackupIsAWayBackOnceItHasSucceededAndAsLongAsItStays(t *testing.T) {
	of := func(lineage string, status metav1.ConditionStatus) v1alpha1.Backup {
		return v1alpha1.Backup{Status: v1alpha1.BackupStatus{
			Plan: &v1alpha1.BackupPlan{Repository: "minio", Lineage: lineage}, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status}},
		}}
	}
	deleted := of("7-g1", metav1.ConditionTrue)
	deleted.DeletionTimestamp = &metav1.Time{}
	deleted.DeletionTimestamp.Time = deleted.DeletionTimestamp.AddDate(1, 0, 0)
	elsewhere, damaged := of("7-g1", metav1.ConditionTrue), of("7-g1", metav1.ConditionTrue)
	elsewhere.Status.Plan.Repository = "other"
	damaged.Status.Conditions = append(damaged.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionVerified, Status: metav1.ConditionFalse})
	for name, c := range map[string]struct {
		backup v1alpha1.Backup
		want   bool
	}{
		"it has succeeded":  {of("7-g1", metav1.ConditionTrue), true},
		"it has failed":     {of("7-g1", metav1.ConditionFalse), false},
		"of other data":     {of("7-g0", metav1.ConditionTrue), false},
		"it is not planned": {v1alpha1.Backup{}, false},
		"it is deleted":     {deleted, false},
		"it is elsewhere":   {elsewhere, false},
		"it is damaged":     {damaged, false},
	} {
		if got := Restorable("7-g1", "minio", []v1alpha1.Backup{{}, c.backup}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !Restorable("7-g1", "", []v1alpha1.Backup{elsewhere}) {
		t.Error("one in whatever repository doesn't count where none is named")
	}
	if Restorable("", "", []v1alpha1.Backup{of("", metav1.ConditionTrue)}) {
		t.Error("a lineage that isn't known counts")
	}
}
