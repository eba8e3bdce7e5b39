package storage

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"taken out of the Lease":                  {nil, 1},
		"still in the Lease":                      {func(o *observed.Cluster) { o.Agents["shop-0"].Election.Members = []string{"shop-1", "shop-2"} }, 0},
		"the primary doesn't respond":             {func(o *observed.Cluster) { delete(o.Agents, "shop-0") }, 0},
		"another one has the Lease":               {func(o *observed.Cluster) { o.Agents["shop-0"].Election.Leader = "shop-1" }, 0},
		"nothing is known of a Lease":             {func(o *observed.Cluster) { o.Agents["shop-0"].Election = nil }, 0},
		"it has previous data that may be wanted": {func(o *observed.Cluster) { o.PreviousOn = map[string]string{"shop-2": "Restore r"} }, 0},
		"another one has such data":               {func(o *observed.Cluster) { o.PreviousOn = map[string]string{"shop-1": "Restore r"} }, 1},
		"the primary is down":                     {func(o *observed.Cluster) { observedtest.Unready(o, 0) }, 0},
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
	said := func(policy v1alpha1.DeletionPolicy) func(*observed.Cluster) {
		return func(o *observed.Cluster) { o.Cluster.Spec.DeletionPolicy = policy }
	}
	deleted := func(o *observed.Cluster) { o.Cluster.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon} }
	lost := func(o *observed.Cluster) { delete(o.Live, observed.Key("PersistentVolumeClaim", "data-shop-0")) }
	unheard := func(o *observed.Cluster) { o.Cluster.Status.SystemIdentifier, o.Agents = "", nil }
	leads := func(o *observed.Cluster) { o.Pod(0).Labels[v1alpha1.LabelRole] = string(v1alpha1.RolePrimary) }
	backup := func(status metav1.ConditionStatus) func(*observed.Cluster) {
		return func(o *observed.Cluster) {
			o.Cluster.Status.BackupRequest = &v1alpha1.BackupRequest{Token: "t"}
			o.FinalBackup = &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: "t"}}}
			o.FinalBackup.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: status}}
		}
	}
	archiving, all := observedtest.Archiving, observedtest.All
	ended := observedtest.Ended("shop-0", "g1")
	const gone, stays = v1alpha1.VolumesDelete, v1alpha1.VolumesRetain
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   v1alpha1.VolumePolicy
	}{
		"nothing said, no archive":                     {func(*observed.Cluster) {}, stays},
		"nothing said, with an archive":                {archiving, gone},
		"no final backup wanted":                       {all(archiving, said(v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false)})), stays},
		"said":                                         {said(v1alpha1.DeletionPolicy{Volumes: gone}), gone},
		"its final backup was taken":                   {all(archiving, deleted, backup(metav1.ConditionTrue), ended), gone},
		"its final backup was taken, a volume is lost": {all(archiving, deleted, lost, backup(metav1.ConditionTrue), ended), gone},
		"WAL was not archived at its end":              {all(archiving, deleted, backup(metav1.ConditionTrue), observedtest.Ended("shop-0", "g1", "000000010000000000000007")), stays},
		"its primary did not say how it ended":         {all(archiving, deleted, backup(metav1.ConditionTrue)), stays},
		"a former primary said so":                     {all(archiving, deleted, backup(metav1.ConditionTrue), observedtest.Ended("shop-1", "g1")), stays},
		"it was said of former data":                   {all(archiving, deleted, backup(metav1.ConditionTrue), observedtest.Ended("shop-0", "g0")), stays},
		"it was not said, and somebody deletes all":    {all(archiving, deleted, backup(metav1.ConditionTrue), said(v1alpha1.DeletionPolicy{Volumes: gone})), stays},
		"it was not said, and no backup is wanted": {
			all(archiving, deleted, backup(metav1.ConditionTrue), said(v1alpha1.DeletionPolicy{Volumes: gone, FinalBackup: ptr.To(false)})), gone},
		"its final backup is being deleted": {all(archiving, deleted, backup(metav1.ConditionTrue), ended, func(o *observed.Cluster) {
			o.FinalBackup.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
		}), stays},
		"its final backup has failed":            {all(archiving, deleted, backup(metav1.ConditionFalse)), stays},
		"the volume of its last primary is lost": {all(archiving, deleted, lost), stays},
		"it is lost, and somebody says so":       {all(archiving, deleted, lost, said(v1alpha1.DeletionPolicy{Volumes: gone})), gone},
		"it never served":                        {all(archiving, deleted, unheard, observedtest.AllGone, func(o *observed.Cluster) { observedtest.LeadTo(o, "", nil) }), gone},
		"it serves, and no agent was heard":      {all(archiving, deleted, unheard, leads), stays},
	} {
		if got := volumePolicy(observedtest.Trio(c.change)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
