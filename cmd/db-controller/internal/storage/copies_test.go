package storage

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func keeps(o *observed.Cluster) { o.Cluster.Spec.Repair = &v1alpha1.Repair{KeepReplacedCopies: true} }

// has says that a volume has these copies of g1.
func has(instance string, ids ...string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Agents[instance].Copies = nil
		for _, id := range ids {
			o.Agents[instance].Copies = append(o.Agents[instance].Copies, agentapi.Copy{ID: id, Of: "g1"})
		}
	}
}

func noted(instance, text string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		metav1.SetMetaDataAnnotation(&o.Claim(o.Names.Ordinal(instance)).ObjectMeta, "howdah.dev/replaced-copies", text)
	}
}

func silent(o *observed.Cluster) { delete(o.Agents, "shop-2") }

func TestWhatAnAgentHasSaidOfItsCopiesCountsUntilItSaysOtherwise(t *testing.T) {
	all, before, two := observedtest.All, noted("shop-2", "g1,g1.c1"), []string{"g1", "g1.c1"}
	cloning := func(o *observed.Cluster) {
		agent := o.Agents["shop-2"]
		agent.State, agent.Replication, agent.Rejoin = agentapi.StateStarting, nil, &agentapi.RejoinStatus{Method: "Clone"}
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   []string
	}{
		"one":                           {has("shop-2", "g1"), nil},
		"two":                           {has("shop-2", "g1", "g1.c1"), two},
		"two of another instance":       {has("shop-1", "g1", "g1.c1"), nil},
		"one, and one of other data":    {all(has("shop-2", "g1"), func(o *observed.Cluster) { addCopy(o, "g0", "g0") }), nil},
		"one, and two of previous data": {all(has("shop-2", "g1"), func(o *observed.Cluster) { addCopy(o, "g0", "g0"); addCopy(o, "g0.c1", "g0") }), []string{"g0", "g0.c1"}},
		"one that is to be replaced":    {all(has("shop-2", "g1"), cloning), []string{"g1"}},
		"none before the first clone":   {cloning, nil},
		"it does not respond":           {all(before, silent), two},
		"it does not know":              {before, two},
		"it has just started":           {all(before, has("shop-2", "g1"), func(o *observed.Cluster) { o.Agents["shop-2"].State = agentapi.StateStarting }), two},
		"it does not follow yet":        {all(before, has("shop-2", "g1"), func(o *observed.Cluster) { o.Agents["shop-2"].Replication.Streaming = false }), two},
		"the other one was removed":     {all(before, has("shop-2", "g1.c1")), nil},
		"it was removed at the primary": {all(before, has("shop-2", "g1.c1"), func(o *observed.Cluster) { observedtest.SwitchedTo(o, "shop-2") }), nil},
		"another clone":                 {all(before, has("shop-2", "g1", "g1.c1", "g1.c2")), []string{"g1", "g1.c1", "g1.c2"}},
		"it has neither claim nor agent": {all(before, silent, func(o *observed.Cluster) {
			delete(o.Live, observed.Key("PersistentVolumeClaim", "data-shop-2"))
		}), nil},
	} {
		o := observedtest.Trio(c.change)
		if got := Copies(o, "shop-2"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
		claim := o.Claim(2)
		if claim == nil {
			continue
		}
		api := fakeapi.New(claim.DeepCopy())
		if err := (&Steps{Applier: &apply.Applier{Client: api}}).noteWord(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		later := &corev1.PersistentVolumeClaim{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), later); err != nil {
			t.Fatal(err)
		}
		if text, is := later.Annotations["howdah.dev/replaced-copies"]; text != strings.Join(c.want, ",") || is != (len(c.want) > 0) {
			t.Errorf("%s: its claim says %q, %v", name, text, is)
		}
	}
}

func addCopy(o *observed.Cluster, id, of string) {
	o.Agents["shop-2"].Copies = append(o.Agents["shop-2"].Copies, agentapi.Copy{ID: id, Of: of})
}

func TestTheVolumeOfARemovedInstanceIsLeftBehindWithTheCopiesThatAPersonKeeps(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		stays  bool
	}{
		"nothing was replaced":                  {keeps, false},
		"a copy was replaced":                   {observedtest.All(keeps, noted("shop-2", "g1,g1.c1")), true},
		"one was, which nobody wants to keep":   {noted("shop-2", "g1,g1.c1"), false},
		"one was, and volumes of others go":     {observedtest.All(keeps, noted("shop-2", "g1,g1.c1"), said(v1alpha1.VolumesDelete, nil)), true},
		"the same, and no backup is wanted":     {observedtest.All(keeps, noted("shop-2", "g1,g1.c1"), said(v1alpha1.VolumesDelete, ptr.To(false))), true},
		"a copy was replaced on another volume": {observedtest.All(keeps, noted("shop-1", "g1,g1.c1")), false},
	} {
		o := observedtest.Trio(func(o *observed.Cluster) {
			observedtest.Archiving(o)
			c.change(o)
			claim := o.Claim(2)
			observedtest.Wants(2)(o)
			observedtest.ReplicasOfSet(o, 2)
			observedtest.Lose(o, "shop-2")
			o.Live[observed.Key("PersistentVolumeClaim", claim.Name)] = claim // its pod is gone, and its volume is not
			o.Agents["shop-0"].Election.Members = []string{"shop-1"}
			o.Fresh = true
		})
		claim, recorder := o.Claim(2), events.NewFakeRecorder(9)
		api, key := fakeapi.New(claim.DeepCopy()), client.ObjectKeyFromObject(claim)
		if err := api.Get(t.Context(), key, claim); err != nil {
			t.Fatal(err)
		}
		outcome := (&Steps{Applier: &apply.Applier{Client: api}, Events: recorder}).ReleaseRemoved(t.Context(), o)
		later := &corev1.PersistentVolumeClaim{}
		err := api.Get(t.Context(), key, later)
		if !outcome.Finished() || client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == c.stays {
			t.Errorf("%s: %v, %+v", name, err, outcome)
			continue
		}
		if !c.stays {
			continue
		}
		if later.Labels[component.LabelRetainedReason] != ReplacedCopies || !strings.Contains(later.Annotations[component.AnnotationRetainedMessage], "g1, g1.c1; the link current") {
			t.Errorf("%s: %+v", name, later.ObjectMeta)
		}
		if event := <-recorder.Events; !strings.Contains(event, "It is used again when spec.instances includes shop-2. Delete it when you don't need it.") {
			t.Errorf("%s: %s", name, event)
		}
		if back := volume.Reclaimed(later, o.Cluster); back.Annotations["howdah.dev/replaced-copies"] != "g1,g1.c1" {
			t.Errorf("%s: once it is used again, nothing says what it has until its agent does", name)
		}
	}
}

func said(policy v1alpha1.VolumePolicy, backup *bool) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		o.Cluster.Spec.DeletionPolicy = v1alpha1.DeletionPolicy{Volumes: policy, FinalBackup: backup}
	}
}

func TestTheVolumesOfADeletedClusterStayWithTheCopiesThatAPersonKeeps(t *testing.T) {
	all, replaced := observedtest.All, noted("shop-0", "g1,g1.c1")
	ended := observedtest.Ended("shop-0", "g1")
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"nothing was replaced":           {all(keeps, ended), ""},
		"a copy was replaced":            {all(keeps, replaced, ended), ReplacedCopies},
		"nobody wants to keep it":        {all(replaced, ended), ""},
		"somebody deletes all":           {all(keeps, replaced, ended, said(v1alpha1.VolumesDelete, nil)), ReplacedCopies},
		"the same, and without a backup": {all(keeps, replaced, ended, said(v1alpha1.VolumesDelete, ptr.To(false))), ""},
		"its last WAL is not archived":   {all(keeps, replaced), volume.NotArchived},
		"all volumes are kept":           {all(keeps, replaced, ended, said(v1alpha1.VolumesRetain, nil)), volume.ByPolicy},
	} {
		o := observedtest.Trio(all(observedtest.Archiving, c.change, func(o *observed.Cluster) {
			o.Cluster.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
			o.Cluster.Status.BackupRequest = &v1alpha1.BackupRequest{Token: "t"}
			o.FinalBackup = &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: "t"}}}
			o.FinalBackup.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue}}
		}))
		got := volume.Why{}
		if why := whyKept(o, "shop-0"); why != nil {
			got = *why
		}
		if got.Reason != c.want || strings.Contains(got.Message, "g1, g1.c1") != (c.want != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
