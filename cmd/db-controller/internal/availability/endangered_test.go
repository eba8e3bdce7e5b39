package availability_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/finalbackup"
	"howdah.dev/howdah/cmd/db-controller/internal/hibernation"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/cmd/db-controller/internal/rolling"
	"howdah.dev/howdah/cmd/db-controller/internal/storage"
	"howdah.dev/howdah/pkg/agentapi"
)

// deleted is a cluster in which somebody has deleted the claim of an instance.
func deleted(ordinal int) func(*observed.Cluster) {
	return func(o *observed.Cluster) {
		gone := metav1.NewTime(observedtest.Noon)
		o.Claim(ordinal).DeletionTimestamp = &gone
	}
}

func TestNothingEndsAPodThatAloneKeepsAVolume(t *testing.T) {
	hibernate := func(o *observed.Cluster) { o.Cluster.Spec.Hibernate = true }
	for name, c := range map[string]struct {
		o      *observed.Cluster
		advice string
	}{
		"a replica's":         {observedtest.Trio(observedtest.All(deleted(2), observedtest.NewImage(), hibernate)), "Delete pod shop-2"},
		"the primary's":       {observedtest.Trio(observedtest.All(deleted(0), observedtest.NewImage(1, 2), hibernate)), "Switch over"},
		"a single instance's": {observedtest.Running(observedtest.All(deleted(0), observedtest.NewImage(), hibernate)), "spec.instances to 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if next := rolling.NextMove(c.o); next.Kind == rolling.MoveReplace {
				t.Errorf("it is replaced: %+v", next)
			}
			if hibernation.Hibernating(c.o) {
				t.Error("it is stopped")
			}
			if found := hibernation.Condition(c.o); !strings.Contains(found.Message, "spec.hibernate") {
				t.Errorf("of hibernation: %+v", found)
			}
			if why := availability.Unstoppable(c.o); !strings.Contains(why, c.advice) {
				t.Errorf("the lock is refused with %q", why)
			}
			if found := storage.Space(c.o); found.Reason != "ClaimDeleted" || !strings.Contains(found.Message, c.advice) {
				t.Errorf("it shows as %+v", found)
			}
		})
	}
}

func TestAnInstanceWaitsForItsPreviousClaim(t *testing.T) {
	o := observedtest.Trio(observedtest.All(deleted(2), func(o *observed.Cluster) { observedtest.Lose(o, "shop-2") }))
	if _, message := availability.InstanceTrouble(o, 2); !strings.Contains(message, "kubectl describe pvc data-shop-2") {
		t.Error(message)
	}
	o = observedtest.Trio(func(o *observed.Cluster) { observedtest.Lose(o, "shop-2") })
	if _, message := availability.InstanceTrouble(o, 2); message != "Pod shop-2 is being created." {
		t.Error(message)
	}
}

func TestAClaimThatGoesWithItsPodEndangersNothingMore(t *testing.T) {
	gone := metav1.NewTime(observedtest.Noon)
	o := observedtest.Trio(observedtest.All(deleted(2), func(o *observed.Cluster) { o.Pod(2).DeletionTimestamp = &gone }))
	if why := availability.Endangered(o); why != "" {
		t.Error(why)
	}
}

func TestALastBackupIsTakenFromAVolumeThatWasDeletedAndIsInUse(t *testing.T) {
	wanted := true
	o := observedtest.Running(observedtest.All(deleted(0), func(o *observed.Cluster) { o.Cluster.Spec.DeletionPolicy.FinalBackup = &wanted }))
	if !finalbackup.Due(o) {
		t.Error("the cluster goes without its last backup")
	}
	o.Pods, o.Live[observed.Key("StatefulSet", "shop")] = nil, nil
	if finalbackup.Due(o) {
		t.Error("a backup is waited for of a volume that is gone")
	}
}

func TestTheLastPrimarySaysFirstWhyThereIsNone(t *testing.T) {
	o := observedtest.Trio(func(o *observed.Cluster) {
		for name, why := range map[string]string{"shop-0": "Waiting for shop-1 to become primary.", "shop-1": "Its volume has no copy.", "shop-2": "Waiting for shop-1 to become primary."} {
			o.Agents[name].Election = &agentapi.ElectionStatus{Waiting: why}
			o.Agents[name].Role = string(v1alpha1.RoleReplica)
		}
		o.Lease, o.Cluster.Status.Primary = nil, "shop-1"
	})
	if o.Primary() >= 0 {
		t.Fatal("there is a primary")
	}
	if reason, message := availability.NotServing(o); reason != v1alpha1.ReasonElecting || message != "There is no primary: shop-1: Its volume has no copy." {
		t.Errorf("%s: %s", reason, message)
	}
}
