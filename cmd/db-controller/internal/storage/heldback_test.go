package storage

import (
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

const notRewound = "The data is not rewound."

func heldBack(o *observed.Cluster) {
	agent := o.Agents["shop-2"]
	agent.State, agent.Replication, agent.HeldBack = agentapi.StateStopped, nil, notRewound
}

func heldBackBefore(instance string) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		metav1.SetMetaDataAnnotation(&o.Claim(o.Names.Ordinal(instance)).ObjectMeta, "howdah.dev/held-back-repair", notRewound)
	}
}

func TestWhatAnAgentHasSaidOfARepairThatIsHeldBackCountsUntilItSaysOtherwise(t *testing.T) {
	all, before := observedtest.All, heldBackBefore("shop-2")
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"nothing is held back":            {func(*observed.Cluster) {}, ""},
		"the data is not rewound":         {heldBack, notRewound},
		"the agent does not respond":      {all(before, silent), notRewound},
		"the pause has just ended":        {all(before, heldBack, func(o *observed.Cluster) { o.Agents["shop-2"].HeldBack = "" }), notRewound},
		"it is being rewound":             {all(before, func(o *observed.Cluster) { o.Agents["shop-2"].Rejoin = &agentapi.RejoinStatus{Method: "Rewind"} }), notRewound},
		"it follows":                      {before, ""},
		"it was held back on another one": {heldBackBefore("shop-1"), ""},
	} {
		o := observedtest.Trio(c.change)
		if got := HeldBackOn(o, "shop-2"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		claim := o.Claim(2)
		api := fakeapi.New(claim.DeepCopy())
		if err := (&Steps{Applier: &apply.Applier{Client: api}}).noteWord(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		later := &corev1.PersistentVolumeClaim{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), later); err != nil {
			t.Fatal(err)
		}
		if text, is := later.Annotations["howdah.dev/held-back-repair"]; text != c.want || is != (c.want != "") {
			t.Errorf("%s: its claim says %q, %v", name, text, is)
		}
	}
}

func TestTheVolumeOfARemovedInstanceIsLeftBehindWhileItsDataWasNotRepaired(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		reason string
	}{
		"nothing was held back":           {func(*observed.Cluster) {}, ""},
		"the data was not rewound":        {heldBackBefore("shop-2"), RepairHeldBack},
		"volumes of others are deleted":   {observedtest.All(heldBackBefore("shop-2"), said(v1alpha1.VolumesDelete, ptr.To(false))), RepairHeldBack},
		"volumes of others are kept":      {observedtest.All(heldBackBefore("shop-2"), said(v1alpha1.VolumesRetain, nil)), volume.ByPolicy},
		"there are replaced copies, too":  {observedtest.All(keeps, noted("shop-2", "g1,g1.c1"), heldBackBefore("shop-2")), ReplacedCopies},
		"it was held back on another one": {heldBackBefore("shop-1"), ""},
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
		switch {
		case !outcome.Finished() || client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) != (c.reason == ""):
			t.Errorf("%s: %v, %+v", name, err, outcome)
		case c.reason != "" && (later.Labels[component.LabelRetainedReason] != c.reason || !strings.Contains(later.Annotations[component.AnnotationRetainedMessage], notRewound)):
			t.Errorf("%s: %+v", name, later.ObjectMeta)
		}
	}
}

func TestTheVolumesOfADeletedClusterStayWhereARepairWasHeldBack(t *testing.T) {
	all, ended := observedtest.All, observedtest.Ended("shop-0", "g1")
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"nothing was held back":          {ended, ""},
		"the data was not rewound":       {all(heldBackBefore("shop-2"), ended), RepairHeldBack},
		"somebody deletes all":           {all(heldBackBefore("shop-2"), ended, said(v1alpha1.VolumesDelete, nil)), RepairHeldBack},
		"the same, and without a backup": {all(heldBackBefore("shop-2"), ended, said(v1alpha1.VolumesDelete, ptr.To(false))), ""},
	} {
		o := observedtest.Trio(all(observedtest.Archiving, c.change, silent, func(o *observed.Cluster) {
			o.Cluster.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
			o.Cluster.Status.BackupRequest = &v1alpha1.BackupRequest{Token: "t"}
			o.FinalBackup = &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: "t"}}}
			o.FinalBackup.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue}}
		}))
		got := ""
		if why := whyKept(o, "shop-2"); why != nil {
			got = why.Reason
		}
		if got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
