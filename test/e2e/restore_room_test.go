//go:build e2e

package e2e

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// TestWithoutRoomForBothThePreviousDataComesBackFromTheSafetyBackup on volumes that hold the data once: refused without the
// words, done with them, and undone by a restore of the safety backup.
func TestWithoutRoomForBothThePreviousDataComesBackFromTheSafetyBackup(t *testing.T) {
	onlyInFull(t, "the Job and the controller have tests of their own for a volume without room")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	shop := b.NewCluster("shop", 17)
	shop.Spec.Instances = 2
	b.LimitVolumes(shop, 2)
	b.Must(b.Create(t.Context(), shop))
	b.awaitInstances(shop, 2)
	b.SQL("shop", "CREATE TABLE t (n int, m text)")
	for range 4 { // 40 MB each, and its WAL goes before the next
		b.SQL("shop", "INSERT INTO t SELECT n, repeat(md5(n::text), 10) FROM generate_series(1, 100000) AS n")
		_, err := b.SQLOn(b.Primary("shop"), "CHECKPOINT")
		b.Must(err)
	}
	_, err := b.Exec(b.Primary("shop"), "fallocate", "-l", "40M", "/var/lib/howdah/filler")
	b.Must(err)
	b.Backup("base", "shop")
	b.SQL("shop", "SELECT pg_create_restore_point('here')")
	before := b.SQL("shop", sum)
	b.SQL("shop", "INSERT INTO t SELECT -n, 'later' FROM generate_series(1, 5000) AS n")
	later := b.SQL("shop", sum)
	awaitArchived(b)
	b.Await(shop, "its volume to be seen in use", func() bool {
		for _, instance := range shop.Status.Instances {
			if s := instance.Storage; instance.Name == shop.Status.Primary && s != nil && s.Used != nil {
				return s.Used.Value() > 280<<20
			}
		}
		return false
	})

	target := &v1alpha1.RestoreTarget{RestorePoint: "here"}
	short := b.inPlace("short", target)
	b.Must(b.Create(t.Context(), short))
	b.AwaitReason(short, v1alpha1.ConditionSucceeded, v1alpha1.ReasonNoSpace, "discardPrevious: true and safetyBackup: true")
	if got := b.SQL("shop", sum); got != later {
		t.Errorf("refused, and the table has %s, not %s", got, later)
	}

	there := b.withoutRoom("there", target)
	if got := b.SQL("shop", sum); got != before {
		t.Errorf("the table has %s, not %s", got, before)
	}
	b.awaitInstances(shop, 2)
	safety := &v1alpha1.Backup{ObjectMeta: b.Meta(there.Status.SafetyBackup)}
	b.Must(b.Get(t.Context(), client.ObjectKeyFromObject(safety), safety))
	if !safety.Spec.Hold {
		t.Errorf("retention may take %s, the only way back", safety.Name)
	}
	err = b.Patch(t.Context(), there, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"decision":"Undo"}}`)))
	if err == nil {
		t.Error("what can't be undone can be asked for")
	}
	t.Log(err)

	back := b.inPlace("back", nil)
	back.Spec.Source = v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: there.Status.SafetyBackup}}
	b.discards(back)
	if got := b.SQL("shop", sum); got != later {
		t.Errorf("back again the table has %s, not %s", got, later)
	}
	b.awaitInstances(shop, 2)
}

// withoutRoom restores the cluster `shop` in place and gives the previous data up for it.
func (b *bed) withoutRoom(name string, target *v1alpha1.RestoreTarget) *v1alpha1.Restore {
	b.Helper()
	restore := b.inPlace(name, target)
	b.discards(restore)
	if !restore.Status.Plan.DiscardsPrevious {
		b.Errorf("%s: the previous data stays: %+v", name, restore.Status.Plan)
	}
	return restore
}

func (b *bed) discards(restore *v1alpha1.Restore) {
	b.Helper()
	restore.Spec.Destination.InPlace.SafetyBackup, restore.Spec.Destination.InPlace.DiscardPrevious = true, true
	b.Must(b.Create(b.Context(), restore))
	b.AwaitTrue(restore, v1alpha1.ConditionSucceeded)
	b.Log(place.Condition(restore, v1alpha1.ConditionSucceeded).Message)
}
