package storage

import (
	"testing"

	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
)

// A replica that the Lease names may have the only other copy of a commit: its volume stays until the primary has taken it out.
func TestTheVolumeOfARemovedInstanceStaysWhileTheLeaseNamesIt(t *testing.T) {
	removed := observedtest.All(observedtest.Wants(2), func(o *observed.Cluster) {
		claim := o.Claim(2)
		observedtest.ReplicasOfSet(o, 2)
		observedtest.Lose(o, "shop-2")
		o.Live[observed.Key("PersistentVolumeClaim", claim.Name)] = claim // its pod is gone, and its volume is not
		o.Agents["shop-0"].Election.Members = []string{"shop-1"}
	})
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   int
	}{
		"taken out of the Lease":      {nil, 1},
		"still in the Lease":          {func(o *observed.Cluster) { o.Agents["shop-0"].Election.Members = []string{"shop-1", "shop-2"} }, 0},
		"the primary doesn't answer":  {func(o *observed.Cluster) { delete(o.Agents, "shop-0") }, 0},
		"another one has the Lease":   {func(o *observed.Cluster) { o.Agents["shop-0"].Election.Leader = "shop-1" }, 0},
		"nothing is known of a Lease": {func(o *observed.Cluster) { o.Agents["shop-0"].Election = nil }, 0},
		"the primary is down":         {func(o *observed.Cluster) { observedtest.Unready(o, 0) }, 0},
	} {
		change := removed
		if c.change != nil {
			change = observedtest.All(removed, c.change)
		}
		o := observedtest.Trio(change)
		if got := removable(o); len(got) != c.want {
			t.Errorf("%s: %d claims may go, want %d", name, len(got), c.want)
		}
		if said := scaling.Condition(o).Reason != ""; said && c.want > 0 || !said && scaling.PrimaryStays(o) && c.want == 0 {
			t.Errorf("%s: that the volume is kept is said: %v", name, said)
		}
	}
}

func TestVolumesGoOnlyWhereABackupStaysOrSomebodySaysSo(t *testing.T) {
	archive := &v1alpha1.ArchiveSpec{}
	for name, c := range map[string]struct {
		spec v1alpha1.PostgresClusterSpec
		want v1alpha1.VolumePolicy
	}{
		"nothing said, no archive":      {v1alpha1.PostgresClusterSpec{}, v1alpha1.VolumesRetain},
		"nothing said, with an archive": {v1alpha1.PostgresClusterSpec{Archive: archive}, v1alpha1.VolumesDelete},
		"no final backup wanted":        {v1alpha1.PostgresClusterSpec{Archive: archive, DeletionPolicy: v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false)}}, v1alpha1.VolumesRetain},
		"said":                          {v1alpha1.PostgresClusterSpec{DeletionPolicy: v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete}}, v1alpha1.VolumesDelete},
	} {
		if got := volumePolicy(&v1alpha1.PostgresCluster{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
