package storage

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/apply"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// WAL waits for the archive, and the data has all the space that it needs.
func TestWALVolumesGrowByThemselvesAndThoseOfTheDataStay(t *testing.T) {
	o := observedtest.Bound(observedtest.All(observedtest.WithWAL, func(o *observed.Cluster) {
		o.Cluster.Spec.Storage.WAL.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("20Gi"), AtPercent: 80, StepPercent: 50}
		observedtest.FillWAL(o, 1, 90)
	}))
	if !Filling(o) {
		t.Fatal("its class would not be read")
	}
	outcome := GrowByItself(t.Context(), o)
	if outcome.Kind != flow.KindSave || !strings.Contains(outcome.Message, "The WAL volumes are to grow from 4Gi to 6Gi. They grow automatically, because the WAL volume of shop-1 was 90% full.") {
		t.Errorf("%+v", outcome)
	}
	size, wal := volume.Size(o.Cluster), volume.WALSize(o.Cluster)
	if size.String() != "10Gi" || wal.String() != "6Gi" || o.Cluster.Status.Storage != nil {
		t.Errorf("%s and %s", size.String(), wal.String())
	}
	for _, claim := range observed.CurrentVolumes(o) {
		if TooSmall(o, claim) != volume.IsWAL(claim) {
			t.Errorf("%s is too small: %v", claim.Name, TooSmall(o, claim))
		}
	}
	if found := Growing(o); found.Reason != v1alpha1.ReasonVolumesGrowing || !strings.Contains(found.Message, "PersistentVolumeClaim wal-shop-0 grows from 4Gi to 6Gi. They grow automatically") {
		t.Errorf("%+v", found)
	}
}

func TestAFullWALVolumeIsNamed(t *testing.T) {
	const cause = "100 MiB of 4.0 GiB are free, and 3.8 GiB of WAL wait for the archive, which fails: the bucket is gone"
	o := observedtest.Bound(observedtest.All(observedtest.WithWAL, func(o *observed.Cluster) {
		o.Agents["shop-0"].WALVolume = &agentapi.VolumeStatus{Bytes: 4 * observedtest.GiB, UsedBytes: 39 * observedtest.GiB / 10, State: agentapi.VolumeFull, Cause: cause}
	}))
	for ordinal := range 3 {
		o.Cluster.Status.Instances = append(o.Cluster.Status.Instances, v1alpha1.InstanceStatus{
			Name: o.Names.Instance(ordinal), Role: []v1alpha1.InstanceRole{v1alpha1.RolePrimary, v1alpha1.RoleReplica, v1alpha1.RoleReplica}[ordinal],
			Storage: InstanceStorage(o, ordinal, nil),
		})
	}
	found := Space(o)
	if want := "The WAL volume of the primary shop-0 is full, and clients may only read until there is space: " + cause +
		". Fix the cause, or raise spec.storage.wal.size beyond 4Gi."; found.Reason != v1alpha1.ReasonDiskFull || found.Message != want {
		t.Errorf("%s: %s", found.Reason, found.Message)
	}
	wal := o.Cluster.Status.Instances[0].Storage.WAL
	if wal.Name != "wal-shop-0" || wal.Capacity.String() != "4Gi" || wal.State != v1alpha1.SpaceFull || o.Cluster.Status.Instances[0].Storage.State != "" {
		t.Errorf("%+v", wal)
	}
}

// The claim of the data leads to that of the WAL: a process that ends between the two is followed by one that finds the first.
func TestTheClaimOfTheWALGoesBeforeThatOfTheData(t *testing.T) {
	for policy, want := range map[v1alpha1.VolumePolicy]string{
		v1alpha1.VolumesDelete: "delete wal-shop-0, delete data-shop-0, delete wal-shop-1, delete data-shop-1, delete wal-shop-2, delete data-shop-2",
		v1alpha1.VolumesRetain: "patch wal-shop-0, patch data-shop-0, patch wal-shop-1, patch data-shop-1, patch wal-shop-2, patch data-shop-2",
	} {
		o := observedtest.Bound(observedtest.All(observedtest.WithWAL, func(o *observed.Cluster) {
			o.Cluster.Spec.DeletionPolicy.Volumes = policy
			o.Cluster.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
		}))
		var done []string
		api := fakeapi.New()
		for _, claim := range observed.ExistingVolumes(o) {
			if err := api.Create(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
		}
		recording := interceptor.NewClient(api, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
				done = append(done, "delete "+object.GetName())
				return c.Delete(ctx, object, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
				done = append(done, "patch "+object.GetName())
				return c.Patch(ctx, object, patch, opts...)
			},
		})
		steps := &Steps{Applier: &apply.Applier{Client: recording}, Events: events.NewFakeRecorder(20)}
		if outcome := steps.ReleaseVolumes(t.Context(), o); !outcome.Finished() {
			t.Fatalf("%+v", outcome)
		}
		if got := strings.Join(done, ", "); got != want {
			t.Errorf("%s: %s", policy, got)
		}
	}
}

// What an instance had is of no use without its WAL, so both stay, or go.
func TestTheClaimOfTheWALOfARemovedInstanceGoesWithItsData(t *testing.T) {
	o := observedtest.Bound(observedtest.All(observedtest.WithWAL, observedtest.Wants(2), func(o *observed.Cluster) {
		data, wal := o.Claim(2), observed.WALClaim(o, 2)
		observedtest.ReplicasOfSet(o, 2)
		observedtest.Lose(o, "shop-2")
		o.Live[observed.Key("PersistentVolumeClaim", data.Name)], o.Live[observed.Key("PersistentVolumeClaim", wal.Name)] = data, wal
		o.Agents["shop-0"].Election.Members = []string{"shop-1"}
	}))
	var names []string
	for _, claim := range removable(o) {
		names = append(names, claim.Name)
	}
	if got := strings.Join(names, " "); got != "wal-shop-2 data-shop-2" {
		t.Errorf("%s may go", got)
	}
	o.Agents["shop-0"].Election.Members = []string{"shop-1", "shop-2"}
	if left := removable(o); len(left) > 0 {
		t.Errorf("%d claims of an instance that may have the only other copy of a commit may go", len(left))
	}
}
