package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/writes"
)

// WayBack is something that replaces the data of a cluster and leads back from it, or is given up on the way there.
type WayBack struct {
	Name string
	// do it, and say which span of time is given up: what was acknowledged in it may be lost.
	do func(*round) span
}

// span of time in which acknowledged rows were written to data that a person gave up; empty where none was.
type span struct{ from, to time.Time }

func (s span) has(at time.Time) bool { return !at.Before(s.from) && at.Before(s.to) }

// upgradeVersion is what upgrades that fail would lead to, from an older one.
const upgradeVersion = 18

// WaysBack are all of them: an undo, a discard whose safety backup is restored, and upgrades and restores that are given up at each step.
func WaysBack() []WayBack {
	ways := []WayBack{{"undo", undo}, {"discard", discard}}
	for _, step := range upgradeSteps {
		ways = append(ways, WayBack{"upgrade fails: " + step.name, func(r *round) span { return r.failUpgrade(step) }})
	}
	for _, step := range restoreSteps {
		ways = append(ways, WayBack{"restore cancelled: " + step.name, func(r *round) span { return r.cancelRestore(step) }})
	}
	return ways
}

// TryBack does it under a load of about 500 rows a second, and judges.
func (s *Subject) TryBack(t *testing.T, way WayBack, number int) Result {
	t.Helper()
	r := &round{Subject: s.in(t), orderly: true}
	r.awaitWhole()
	r.primary = r.Subject.primary()
	r.until("the rows of the previous round to be deleted", recoveryTime, func(ctx context.Context) error { return writes.Clear(ctx, r.target) })
	r.kept, r.fresh = r.client("kept", r.target, true), r.client("fresh", r.target, false)
	r.load()
	r.strike()

	gone := way.do(r)
	r.awaitWhole()
	whole := time.Now()
	r.awaitUnbroken(r.kept)
	r.awaitUnbroken(r.fresh)
	all := slices.Concat(r.stop(r.kept), r.stop(r.fresh))
	for _, c := range r.loading {
		all = append(all, r.stop(c)...)
	}
	count := len(all)
	all = slices.DeleteFunc(all, func(ack writes.Ack) bool { return gone.has(ack.At) })
	var present map[writes.Row]bool
	r.until("the rows that are there", recoveryTime, func(ctx context.Context) (err error) {
		present, err = writes.Present(ctx, r.target)
		return err
	})
	lost := writes.Lost(all, present)
	if len(lost) > 0 {
		first, last := lost[0], lost[len(lost)-1]
		r.Errorf("%d acknowledged rows are lost, the first %d of the client %s, from %s to %s after it began", len(lost), first.N, first.Client,
			short(first.At.Sub(r.began)), short(last.At.Sub(r.began)))
	}
	r.Logf("%s: %d rows were acknowledged, %d of them on data that was given up; %d are lost", way.Name, count, count-len(all), len(lost))
	r.compareInstances()
	return Result{
		Fault: way.Name, Replication: r.Replication, Round: number, LostRows: len(lost), WholeAgainSeconds: whole.Sub(r.acted).Seconds(),
		GapSeconds: writes.Longest(r.kept.Acks(), r.began, whole).Seconds(), NewConnectionGap: writes.Longest(r.fresh.Acks(), r.began, whole).Seconds(),
	}
}

// BaseBackup is what restores begin with. The clients' table is empty in it, so that no row of theirs is in the way of another.
const BaseBackup = "base"

// restoreInPlace begins a restore of a backup in place.
func (r *round) restoreInPlace(from, suffix string, discard bool) *v1alpha1.Restore {
	r.Helper()
	restore := &v1alpha1.Restore{ObjectMeta: r.Meta(fmt.Sprintf("r%d%s", time.Now().UnixNano()/1e6, suffix)), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: from}},
		Destination: v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: name, SafetyBackup: discard, DiscardPrevious: discard}},
	}}
	if from == BaseBackup {
		restore.Spec.Target = &v1alpha1.RestoreTarget{Immediate: true}
	}
	r.Must(r.Create(r.Context(), restore))
	return restore
}

// undo restores an older state, writes to it, and takes it back.
func undo(r *round) span {
	r.Helper()
	restore := r.restoreInPlace(BaseBackup, "", false)
	r.AwaitTrue(restore, v1alpha1.ConditionRestored)
	r.awaitRows(r.fresh, rows)
	return r.undone(restore)
}

func (r *round) undone(restore *v1alpha1.Restore) span {
	r.Helper()
	r.Merge(restore, `{"spec":{"decision":"Undo"}}`)
	r.AwaitReason(restore, v1alpha1.ConditionSucceeded, v1alpha1.ReasonUndone, "")
	return span{restore.Status.HandedOverAt.Time, restore.Status.UndoneAt.Time}
}

// discard restores an older state in the place of the present one, and then every row from the safety backup and the archive.
func discard(r *round) span {
	r.Helper()
	first := r.restoreInPlace(BaseBackup, "", true)
	r.AwaitTrue(first, v1alpha1.ConditionSucceeded)
	r.awaitRows(r.fresh, rows)
	second := r.restoreInPlace(first.Status.SafetyBackup, "-all", false)
	r.AwaitTrue(second, v1alpha1.ConditionRestored)
	r.Merge(second, `{"spec":{"decision":"Confirm"}}`)
	r.AwaitTrue(second, v1alpha1.ConditionSucceeded)
	return span{first.Status.HandedOverAt.Time, second.Status.HandedOverAt.Add(time.Second)}
}

// restoreStep is when a restore in place is cancelled.
type restoreStep struct {
	name string
	is   func(*v1alpha1.Restore) bool
}

var restoreSteps = []restoreStep{
	{"planned", func(r *v1alpha1.Restore) bool { return r.Status.Plan != nil }},
	{"volumes requested", func(r *v1alpha1.Restore) bool { return r.Status.VolumeLockRequest != nil }},
	{"cluster stopped", func(r *v1alpha1.Restore) bool { return r.Status.Previous != nil }},
	{"Job runs", func(r *v1alpha1.Restore) bool { return r.Status.Previous != nil && r.Status.Progress != nil }},
	{"handed over", func(r *v1alpha1.Restore) bool { return r.Status.Handover != nil }},
}

// cancelRestore cancels a restore in place at a step. One that was faster is undone.
func (r *round) cancelRestore(step restoreStep) span {
	r.Helper()
	restore := r.restoreInPlace(BaseBackup, "", false)
	r.Await(restore, step.name, func() bool { return step.is(restore) })
	r.Merge(restore, `{"spec":{"cancel":true}}`)
	r.Await(restore, "the Restore to end", func() bool {
		return restore.Status.CompletedAt != nil || restore.Status.RestoredAt != nil
	})
	if restore.Status.CompletedAt == nil {
		r.Logf("it was restored before it was cancelled, and is undone")
		return r.undone(restore)
	}
	return span{}
}

// upgradeStep is where an upgrade is made to fail.
type upgradeStep struct {
	name string
	// prepare the cluster, and say how to clear up.
	prepare func(*round) (cleanUp func())
	// during it, something is done.
	during func(*round, *v1alpha1.Upgrade)
	// cancel it when this holds; nil: never.
	cancel func(*v1alpha1.Upgrade) bool
}

var upgradeSteps = []upgradeStep{
	{name: "check", prepare: func(r *round) func() {
		r.sql("CREATE TABLE IF NOT EXISTS awkward (p regproc)")
		return func() { r.sql("DROP TABLE awkward") }
	}},
	{name: "cancelled when volumes are requested", cancel: func(u *v1alpha1.Upgrade) bool { return u.Status.VolumeLockRequest != nil }},
	{name: "cancelled when the cluster is stopped", cancel: func(u *v1alpha1.Upgrade) bool { return u.Status.Previous != nil }},
	{name: "pg_upgrade", prepare: hideFile},
	{name: "the new version does not start", during: forbidPods},
	{name: "cancelled when handed over", cancel: func(u *v1alpha1.Upgrade) bool { return u.Status.Handover != nil }},
}

func (r *round) sql(statements ...string) {
	r.Helper()
	r.until("SQL", recoveryTime, func(context.Context) error {
		_, err := r.SQLOn(r.Subject.primary().Name, statements...)
		return err
	})
}

// hideFile takes a file of a table away, on every instance, which no check of the schema can see.
func hideFile(r *round) (cleanUp func()) {
	r.sql("CREATE TABLE IF NOT EXISTS hidden AS SELECT n FROM generate_series(1, 1000) AS n", "CHECKPOINT")
	file := r.SQL(name, "SELECT pg_relation_filepath('hidden')")
	r.awaitWhole()
	move := func(script string) {
		for i := range r.instances {
			_, err := r.Exec(fmt.Sprintf("%s-%d", name, i), "sh", "-c", fmt.Sprintf(script, strings.TrimSpace(file)))
			r.Must(err)
		}
	}
	move("mv /var/lib/howdah/current/pgdata/%[1]s /var/lib/howdah/hidden")
	return func() {
		move("mv /var/lib/howdah/hidden /var/lib/howdah/current/pgdata/%[1]s")
		r.sql("DROP TABLE hidden")
	}
}

// forbidPods has a quota refuse every pod from the time when that of the upgrade's Job runs, until the upgrade is given up.
func forbidPods(r *round, upgrade *v1alpha1.Upgrade) {
	r.Helper()
	pods := &corev1.PodList{}
	r.Await(upgrade, "its Job to have a pod", func() bool {
		r.Must(r.List(r.Context(), pods, client.InNamespace(r.Namespace), client.MatchingLabels{batchv1.JobNameLabel: upgrade.Name + "-upgrade"}))
		return len(pods.Items) > 0
	})
	quota := &corev1.ResourceQuota{ObjectMeta: r.Meta("no-pods"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
	}}
	r.Must(r.Create(r.Context(), quota))
	r.Await(upgrade, "the upgrade to be given up", func() bool { return upgrade.Status.Failure != nil || upgrade.Status.UpAt != nil })
	r.Must(r.Delete(r.Context(), quota))
}

// failUpgrade begins an upgrade that fails at a step, and waits until the old version serves again. One that was faster is rolled back.
func (r *round) failUpgrade(step upgradeStep) span {
	r.Helper()
	cleanUp := func() {}
	if step.prepare != nil {
		cleanUp = step.prepare(r)
	}
	r.strike()
	upgrade := &v1alpha1.Upgrade{ObjectMeta: r.Meta(fmt.Sprintf("u%d", time.Now().UnixNano()/1e6)), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: name}, Version: upgradeVersion, MaxDowntime: &metav1.Duration{Duration: time.Minute},
	}}
	r.Must(r.Create(r.Context(), upgrade))
	if step.during != nil {
		step.during(r, upgrade)
	}
	if step.cancel != nil {
		r.Await(upgrade, step.name, func() bool { return step.cancel(upgrade) || upgrade.Status.CompletedAt != nil })
		r.Merge(upgrade, `{"spec":{"cancel":true}}`)
	}
	r.Await(upgrade, "the Upgrade to end", func() bool { return upgrade.Status.CompletedAt != nil || upgrade.Status.UpAt != nil })
	gone := span{}
	switch {
	case upgrade.Status.UpAt != nil && step.cancel == nil:
		r.Fatalf("the upgrade did not fail at the step %q: the new version serves clients", step.name)
	case upgrade.Status.UpAt != nil:
		r.Logf("the new version served clients before the upgrade was cancelled, and is rolled back")
		gone = r.rolledBack(upgrade)
	default:
		r.Logf("it ended with: %s", cmp.Or(failureOf(upgrade), "no failure"))
	}
	r.awaitWhole()
	cleanUp()
	r.Must(client.IgnoreNotFound(r.Delete(r.Context(), upgrade)))
	r.AwaitGone(upgrade)
	return gone
}

// rolledBack brings the old version back after clients have written to the new one.
func (r *round) rolledBack(upgrade *v1alpha1.Upgrade) span {
	r.Helper()
	r.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
	r.awaitRows(r.fresh, rows)
	r.Merge(upgrade, `{"spec":{"decision":"RollBack"}}`)
	r.AwaitReason(upgrade, v1alpha1.ConditionConfirmed, v1alpha1.ReasonRolledBack, "")
	return span{upgrade.Status.HandedOverAt.Time, upgrade.Status.SettledAt.Time}
}

func failureOf(u *v1alpha1.Upgrade) string {
	if u.Status.Failure == nil {
		return ""
	}
	return u.Status.Failure.Reason + ": " + u.Status.Failure.Message
}
