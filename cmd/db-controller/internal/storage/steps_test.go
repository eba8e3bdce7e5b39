package storage

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/scaling"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/test/testkit/fakeapi"
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
	undecided := func(o *observed.Cluster) { o.PreviousOn = map[string]string{"shop-0": "Restore r"} }
	const gone, policy, unarchived, previous = "", volume.ByPolicy, volume.NotArchived, volume.PreviousData
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string // reason for which the volume of shop-0 stays
	}{
		"nothing said, no archive":                     {func(*observed.Cluster) {}, policy},
		"nothing said, with an archive":                {archiving, gone},
		"no final backup wanted":                       {all(archiving, said(v1alpha1.DeletionPolicy{FinalBackup: ptr.To(false)})), policy},
		"said":                                         {said(v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete}), gone},
		"its final backup was taken":                   {all(archiving, deleted, backup(metav1.ConditionTrue), ended), gone},
		"its final backup was taken, a volume is lost": {all(archiving, deleted, lost, backup(metav1.ConditionTrue), ended), gone},
		"WAL was not archived at its end":              {all(archiving, deleted, backup(metav1.ConditionTrue), observedtest.Ended("shop-0", "g1", "000000010000000000000007")), unarchived},
		"its primary did not say how it ended":         {all(archiving, deleted, backup(metav1.ConditionTrue)), unarchived},
		"a former primary said so":                     {all(archiving, deleted, backup(metav1.ConditionTrue), observedtest.Ended("shop-1", "g1")), unarchived},
		"it was said of former data":                   {all(archiving, deleted, backup(metav1.ConditionTrue), observedtest.Ended("shop-0", "g0")), unarchived},
		"it was not said, and somebody deletes all":    {all(archiving, deleted, backup(metav1.ConditionTrue), said(v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete})), unarchived},
		"it was not said, and no backup is wanted": {
			all(archiving, deleted, backup(metav1.ConditionTrue), said(v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete, FinalBackup: ptr.To(false)})), gone},
		"nobody knows who was primary last":       {all(archiving, deleted, backup(metav1.ConditionTrue), ended, observedtest.DamagedLease), unarchived},
		"it has previous data that may be wanted": {all(archiving, deleted, backup(metav1.ConditionTrue), ended, undecided), previous},
		"the same, and somebody deletes all": {
			all(archiving, deleted, backup(metav1.ConditionTrue), ended, undecided, said(v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete})), previous},
		"the same, and no backup is wanted": {
			all(archiving, deleted, undecided, said(v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete, FinalBackup: ptr.To(false)})), gone},
		"another one has such data": {all(archiving, deleted, backup(metav1.ConditionTrue), ended, func(o *observed.Cluster) {
			o.PreviousOn = map[string]string{"shop-1": "Restore r"}
		}), gone},
		"its final backup is being deleted": {all(archiving, deleted, backup(metav1.ConditionTrue), ended, func(o *observed.Cluster) {
			o.FinalBackup.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
		}), volume.NoFinalBackup},
		"its final backup has failed":            {all(archiving, deleted, backup(metav1.ConditionFalse)), volume.NoFinalBackup},
		"the volume of its last primary is lost": {all(archiving, deleted, lost), volume.NoFinalBackup},
		"it is lost, and somebody says so":       {all(archiving, deleted, lost, said(v1alpha1.DeletionPolicy{Volumes: v1alpha1.VolumesDelete})), gone},
		"it never served":                        {all(archiving, deleted, unheard, observedtest.AllGone, func(o *observed.Cluster) { observedtest.LeadTo(o, "", nil) }), gone},
		"it serves, and no agent was heard":      {all(archiving, deleted, unheard, leads), volume.NoFinalBackup},
	} {
		got := volume.Why{}
		if why := whyKept(observedtest.Trio(c.change), "shop-0"); why != nil {
			got = *why
		}
		if got.Reason != c.want || (got.Message == "") != (c.want == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A reader of kubectl get finds the reason in a label, and one of kubectl describe finds it in an event, of the claim as well: that outlives the cluster.
func TestAVolumeThatIsKeptSaysWhy(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) {
		observedtest.Archiving(o)
		o.Cluster.DeletionTimestamp, o.PreviousOn = &metav1.Time{Time: observedtest.Noon}, map[string]string{"shop-0": "Restore r"}
	})
	claim, recorder := o.Claim(0), events.NewFakeRecorder(9)
	api := fakeapi.New(claim.DeepCopy())
	outcome := (&Steps{Applier: &apply.Applier{Client: api}, Events: recorder}).ReleaseVolumes(t.Context(), o)
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || !outcome.Finished() {
		t.Fatalf("%v, %+v", err, outcome)
	}
	if claim.Labels[component.LabelRetainedReason] != volume.PreviousData || !strings.Contains(claim.Annotations[component.AnnotationRetainedMessage], "previous data of Restore r") {
		t.Errorf("%+v", claim.ObjectMeta)
	}
	if len(recorder.Events) != 2 {
		t.Fatalf("%d events", len(recorder.Events))
	}
	if said := <-recorder.Events; !strings.HasPrefix(said, "Warning VolumeRetained PersistentVolumeClaim data-shop-0 is kept. It has the previous data of Restore r") ||
		!strings.HasSuffix(said, "Delete it when you don't need it.") {
		t.Error(said)
	}
	back := volume.Reclaimed(claim, o.Cluster)
	if back.Labels[component.LabelRetainedReason] != "" || back.Annotations[component.AnnotationRetainedMessage] != "" {
		t.Errorf("taken back: %+v", back.ObjectMeta)
	}
}

// A former leader that was held up after it decided to delete the volume of a removed instance doesn't know that the instance was added again.
func TestAVolumeThatIsUsedAgainSinceItWasSeenIsNotDeleted(t *testing.T) {
	for name, used := range map[string]bool{"as it was seen": false, "used again": true} {
		o := observedtest.Running(func(o *observed.Cluster) {
			o.Cluster.DeletionTimestamp, o.Cluster.Spec.DeletionPolicy.Volumes = &metav1.Time{Time: observedtest.Noon}, v1alpha1.VolumesDelete
		})
		claim := o.Claim(0)
		api, key := fakeapi.New(claim.DeepCopy()), client.ObjectKeyFromObject(claim)
		if err := api.Get(t.Context(), key, claim); err != nil {
			t.Fatal(err)
		}
		if used {
			later := claim.DeepCopy()
			metav1.SetMetaDataAnnotation(&later.ObjectMeta, component.AnnotationUsedFor, "now")
			if err := api.Update(t.Context(), later); err != nil {
				t.Fatal(err)
			}
		}
		outcome := (&Steps{Applier: &apply.Applier{Client: api}}).ReleaseVolumes(t.Context(), o)
		if err := api.Get(t.Context(), key, &corev1.PersistentVolumeClaim{}); (err == nil) != used || errors.Is(outcome.Err, flow.ErrStale) != used {
			t.Errorf("%s: %v, %+v", name, err, outcome)
		}
	}
}
