package disconnect

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/component/lease"
	"howdah.dev/howdah/cmd/db-controller/internal/component/orphan"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func part(o *observed.Cluster, kind, name string, uid types.UID) *metav1.PartialObjectMetadata {
	part := orphan.Part(kind, name)
	part.UID, part.Labels = uid, component.Labels(o.Cluster, "x")
	return part
}

// again is a PostgresCluster u2 that is created where the database of u1 was released.
func again(change func(*observed.Cluster)) *observed.Cluster {
	o := observedtest.Trio(nil)
	o.Parts = []*metav1.PartialObjectMetadata{part(o, "StatefulSet", "shop", "s1"), part(o, "Lease", "shop", "l1"), part(o, "Secret", "shop-ca", "c1")}
	o.Orphan = orphan.RecordOf(o.Cluster.DeepCopy(), o.Parts, metav1.NewTime(observedtest.Noon))
	o.Cluster.UID, o.Cluster.Status = "u2", v1alpha1.PostgresClusterStatus{}
	if change != nil {
		change(o)
	}
	return o
}

func TestOnlyWhatWasReleasedIsTakenOver(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*observed.Cluster)
		reason, says string
	}{
		"as it was":           {nil, "", ""},
		"with more memory":    {func(o *observed.Cluster) { o.Cluster.Spec.Instances = 5 }, "", ""},
		"another StatefulSet": {func(o *observed.Cluster) { o.Parts[0].UID = "s2" }, v1alpha1.ReasonNameConflict, "StatefulSet shop exists"},
		"of somebody else's": {func(o *observed.Cluster) {
			o.Parts[0].OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: ptr.To(true)}}
		}, v1alpha1.ReasonNameConflict, "StatefulSet shop exists"},
		"a Secret without labels":   {func(o *observed.Cluster) { o.Parts[2].Labels = nil }, v1alpha1.ReasonNameConflict, "Secret shop-ca exists"},
		"a Service that is not its": {func(o *observed.Cluster) { o.Parts = append(o.Parts, part(o, "Service", "shop-ro", "v1")) }, v1alpha1.ReasonNameConflict, "Service shop-ro exists"},
		"a person's password":       {func(o *observed.Cluster) { o.Parts = append(o.Parts, part(o, "Secret", "reporting", "r1")) }, "", ""},
		"a Lease of another":        {func(o *observed.Cluster) { o.Parts[1].UID = "l2" }, v1alpha1.ReasonNameConflict, "Lease shop exists"},
		"a Lease that was replaced": {func(o *observed.Cluster) {
			o.Parts[1].UID = "l2"
			o.Parts[1].Annotations = map[string]string{lease.AnnotationElection: `{"generation":"g1"}`}
		}, "", ""},
		"a StatefulSet was deleted":  {func(o *observed.Cluster) { o.Parts = o.Parts[1:] }, "", ""},
		"another user":               {func(o *observed.Cluster) { o.Cluster.Spec.RunAs = &v1alpha1.RunAs{UserID: ptr.To[int64](26)} }, v1alpha1.ReasonTakeoverRefused, "its spec.runAs can't be changed. It was null"},
		"another class":              {func(o *observed.Cluster) { o.Cluster.Spec.Storage.StorageClassName = ptr.To("fast") }, v1alpha1.ReasonTakeoverRefused, "spec.storage.storageClassName"},
		"another data generation":    {func(o *observed.Cluster) { o.Orphan.Status.DataGeneration = "g2" }, v1alpha1.ReasonTakeoverRefused, `data generation "g1"`},
		"another identity":           {func(o *observed.Cluster) { o.Orphan.Identity = "u9" }, v1alpha1.ReasonTakeoverRefused, `identity "u1"`},
		"another system":             {func(o *observed.Cluster) { o.Agents["shop-2"].SystemIdentifier = "8" }, v1alpha1.ReasonTakeoverRefused, "instance shop-2 has 8"},
		"another cluster's volume":   {foreignVolume, v1alpha1.ReasonTakeoverRefused, "PersistentVolumeClaim data-shop-1 does not belong to the database"},
		"a volume that was replaced": {func(o *observed.Cluster) { delete(o.Live, observed.Key("PersistentVolumeClaim", "data-shop-1")) }, "", ""},
	} {
		reason, says := objection(again(test.change))
		if reason != test.reason || !strings.Contains(says, test.says) {
			t.Errorf("%s: %s: %s", name, reason, says)
		}
	}
}

func foreignVolume(o *observed.Cluster) {
	claim, _ := o.Live[observed.Key("PersistentVolumeClaim", "data-shop-1")].(*corev1.PersistentVolumeClaim)
	claim.Labels[component.LabelClusterUID] = "x"
}

func TestTheStatusIsThatOfTheDatabaseBeforeAnythingIsTouched(t *testing.T) {
	o := again(nil)
	outcome := (&Steps{}).TakeOver(t.Context(), o)
	status := o.Cluster.Status
	if outcome.Finished() || outcome.Stopped() || status.Identity != "u1" || status.DataGeneration != "g1" || status.SystemIdentifier != "7" || o.Cluster.Identity() != "u1" {
		t.Errorf("%+v: %+v", outcome, status)
	}
	damaged := again(func(o *observed.Cluster) { o.Orphan, o.OrphanDamage = nil, "the record can't be read" })
	if outcome := (&Steps{}).TakeOver(t.Context(), damaged); !outcome.Stopped() || outcome.Reason != v1alpha1.ReasonTakeoverRefused || damaged.Begun() {
		t.Errorf("a damaged record: %+v", outcome)
	}
	running := again(func(o *observed.Cluster) { o.Cluster.Status.DataGeneration = "g7" }) // somebody wrote a record under its name
	if outcome := (&Steps{}).TakeOver(t.Context(), running); !outcome.Finished() || running.Cluster.Status.DataGeneration != "g7" {
		t.Errorf("a cluster that runs: %+v", outcome)
	}
}

func TestARecordedReleaseIsFinishedWhateverTheSpecSays(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) { o.Cluster.DeletionTimestamp = ptr.To(metav1.NewTime(observedtest.Noon)) })
	if Wanted(o) {
		t.Error("nobody has asked for it")
	}
	o.Cluster.Spec.DeletionPolicy.Database = v1alpha1.DatabaseOrphan
	o.Operation = "Upgrade to-18"
	if !Wanted(o) || !strings.Contains(Obstacle(o), "Upgrade to-18") {
		t.Errorf("an Upgrade continues: %s", Obstacle(o))
	}
	o.Cluster.Status.SystemIdentifier, o.Agents = "", nil // it serves, although no agent was ever heard
	o.Pod(0).Labels[v1alpha1.LabelRole] = string(v1alpha1.RolePrimary)
	if !Wanted(o) || !strings.Contains(Obstacle(o), "The agent of pod shop-0 doesn't respond") {
		t.Errorf("its agents are silent: %s", Obstacle(o))
	}
	o.Cluster.Status.SystemIdentifier = "7"
	o.Orphan = orphan.RecordOf(o.Cluster, nil, metav1.NewTime(observedtest.Noon))
	o.Cluster.Spec.DeletionPolicy.Database = v1alpha1.DatabaseDelete
	if !Wanted(o) || Obstacle(o) != "" {
		t.Errorf("it was recorded: %s", Obstacle(o))
	}
}
