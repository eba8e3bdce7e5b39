//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// inPlace describes a Restore of the cluster `shop` in place.
func (b *bed) inPlace(name string, target *v1alpha1.RestoreTarget) *v1alpha1.Restore {
	restore := b.restoreOf(name, target)
	restore.Spec.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
	return restore
}

// decides says what becomes of a restore in place.
func (b *bed) decides(restore *v1alpha1.Restore, decision v1alpha1.RestoreDecision) {
	b.Helper()
	b.Must(b.Patch(b.Context(), restore, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"decision":%q}}`, decision))))
}

// moment is a time between two commits, as a target, and the numbers that were committed until then. Under the lock no
// commit is under way: one before it has ended, and one after it has a later time.
func (b *bed) moment(cluster string) (*v1alpha1.RestoreTarget, []int64) {
	b.Helper()
	at, rows, _ := strings.Cut(b.SQL(cluster, "BEGIN", "LOCK TABLE numbers IN EXCLUSIVE MODE",
		`SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`, allNumbers, "COMMIT"), "\n")
	return &v1alpha1.RestoreTarget{Time: at}, b.parseNumbers(rows)
}

const allNumbers = "SELECT n FROM numbers ORDER BY n"

// numbers are the rows of the numbered-rows writer, in order.
func (b *bed) numbers(cluster string) []int64 {
	b.Helper()
	return b.parseNumbers(b.SQL(cluster, allNumbers))
}

func (b *bed) parseNumbers(rows string) []int64 {
	b.Helper()
	var all []int64
	for _, text := range strings.Fields(rows) {
		n, err := strconv.ParseInt(text, 10, 64)
		b.Must(err)
		all = append(all, n)
	}
	return all
}

// generationsOn are the data generations on the volume of an instance, without their clones' suffix.
func (b *bed) generationsOn(pod string) string {
	b.Helper()
	out, err := b.Exec(pod, "ls", "/var/lib/howdah/generations")
	b.Must(err)
	return out
}

// TestARestoreInPlaceIsUndoneAndAnotherConfirmed judges by value: what the restored cluster has is what was committed
// until the target; undone it has every row that was acknowledged before the hold; confirmed the space comes back.
func TestARestoreInPlaceIsUndoneAndAnotherConfirmed(t *testing.T) {
	t.Parallel()
	for _, version := range versionsToTry() {
		t.Run(fmt.Sprint("PostgreSQL ", version), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "minio")
			shop := b.replicated(version)
			uid, before := shop.UID, shop.Status.DataGeneration
			w := b.startWriter("shop")
			b.Backup("base", "shop")
			w.awaitAcks(20)
			target, until := b.moment("shop")
			w.awaitAcks(20)

			plan := b.inPlace("plan", target)
			plan.Spec.Mode = v1alpha1.RestorePlanOnly
			b.Must(b.Create(t.Context(), plan))
			b.AwaitTrue(plan, v1alpha1.ConditionSucceeded)
			t.Log(place.Condition(plan, v1alpha1.ConditionSucceeded).Message)

			undone := b.inPlace("undone", target)
			b.Must(b.Create(t.Context(), undone))
			b.AwaitTrue(undone, v1alpha1.ConditionRestored)
			t.Log(place.Condition(undone, v1alpha1.ConditionSucceeded).Message)
			b.startsWith(until)
			acked := b.ackedBefore(w, undone.Status.DownAt)
			b.awaitInstances(shop, 3)
			b.decides(undone, v1alpha1.DecisionUndo)
			b.AwaitReason(undone, v1alpha1.ConditionSucceeded, v1alpha1.ReasonUndone, "")
			b.awaitInstances(shop, 3)
			has := b.numbers("shop")
			for _, n := range acked {
				if _, found := slices.BinarySearch(has, n); !found {
					t.Fatalf("row %d was acknowledged before the restore, and is not back", n)
				}
			}
			if shop.UID != uid || shop.Status.DataGeneration != before {
				t.Errorf("it runs on %s, not on %s", shop.Status.DataGeneration, before)
			}
			b.Await(shop, "the restored data to be removed", func() bool {
				return !strings.Contains(b.generationsOn(shop.Status.Primary), undone.Status.Plan.DataGeneration)
			})

			confirmed := b.inPlace("confirmed", target)
			confirmed.Spec.Destination.InPlace.SafetyBackup = true
			b.Must(b.Create(t.Context(), confirmed))
			b.AwaitTrue(confirmed, v1alpha1.ConditionRestored)
			b.startsWith(until)
			b.decides(confirmed, v1alpha1.DecisionConfirm)
			b.AwaitTrue(confirmed, v1alpha1.ConditionSucceeded)
			b.awaitInstances(shop, 3)
			for _, instance := range shop.Status.Instances {
				b.Await(shop, "the previous data to be removed from "+instance.Name, func() bool {
					return !strings.Contains(b.generationsOn(instance.Name), before)
				})
			}
			w.awaitAcks(5)
			if confirmed.Status.SafetyBackup == "" {
				t.Error("no safety backup is named")
			}
		})
	}
}

// startsWith fails the test unless the first rows of the table are exactly these: the writer continues after them.
func (b *bed) startsWith(want []int64) {
	b.Helper()
	has := b.numbers("shop")
	if len(has) < len(want) || !slices.Equal(has[:len(want)], want) {
		b.Errorf("restored are %d rows, not the %d that were committed at the target", len(has), len(want))
	}
	// The writer counts on, so what was committed after the target leaves a gap.
	if len(has) > len(want) && has[len(want)] == want[len(want)-1]+1 {
		b.Errorf("row %d is there, and was committed after the target", has[len(want)])
	}
}

// ackedBefore are the rows that were acknowledged before a moment.
func (b *bed) ackedBefore(w *writer, at *metav1.Time) []int64 {
	b.Helper()
	var acked []int64
	for _, ack := range w.acks() {
		if ack.At.Before(at.Time) {
			acked = append(acked, ack.N)
		}
	}
	return acked
}

func TestARestoreInPlaceThatCannotBeLeavesTheClusterServing(t *testing.T) {
	onlyInFull(t, "each refusal has a test of its own")
	t.Parallel()
	b := newBed(t, "minio")
	shop := b.Cluster("shop", 17)
	before := shop.Status.DataGeneration
	b.SQL("shop", "CREATE TABLE t AS SELECT n FROM generate_series(1, 1000) AS n")
	want := b.SQL("shop", sum)
	backup := b.Backup("base", "shop")
	store := b.Bucket()
	for _, key := range b.keys("lineages/" + backup.Status.Plan.Lineage + "/packs/" + backup.Status.Plan.ID) {
		b.Must(store.Delete(t.Context(), key))
	}
	restore := b.inPlace("broken", nil)
	b.Must(b.Create(t.Context(), restore))
	b.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonDataCorrupt, "continues with its previous data")
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	if got := b.SQL("shop", sum); got != want || shop.Status.DataGeneration != before {
		t.Errorf("it has %s on %s, not %s on %s", got, shop.Status.DataGeneration, want, before)
	}
}
