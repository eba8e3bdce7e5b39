package pruning

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
)

// known says since when status knows a lineage.
func (b *bucket) known(lineage string) {
	b.repo.Status.Lineages = append(b.repo.Status.Lineages, v1alpha1.LineageStatus{Name: lineage, FirstSeen: stamp(at(5))})
}

// objects are the Backups of a lineage.
func (b *bucket) objects(lineage string) (objects []v1alpha1.Backup) {
	b.Helper()
	list := &v1alpha1.BackupList{}
	b.must(b.api.List(b.Context(), list))
	for _, object := range list.Items {
		if object.Spec.Found != nil && object.Spec.Found.Lineage == lineage {
			objects = append(objects, object)
		}
	}
	return objects
}

// describe says in the Backups of a lineage what they are, as their reconciler does.
func (b *bucket) describe(lineage string) {
	b.Helper()
	for _, object := range b.objects(lineage) {
		found := object.Spec.Found
		object.Status.Plan = &v1alpha1.BackupPlan{Repository: found.Repository, Lineage: found.Lineage, ID: found.ID}
		object.Status.CompletedAt = stamp(at(2))
		b.must(b.api.Update(b.Context(), &object))
	}
}

// TestALineageThatMayNotBeRemovedYetTakesNoPlaceFromOneThatMay: another Kubernetes may write it for years.
func TestALineageThatMayNotBeRemovedYetTakesNoPlaceFromOneThatMay(t *testing.T) {
	b := lost(t, 2)
	b.lose("9-g1", 3)
	b.known("9-g1") // and 8-g1 is seen only now, as if it were written all the time
	pruner := b.pruner()
	r := &run{Pruner: pruner, memory: pruner.memoryOf(b.repo.UID), repo: b.repo, store: b, now: now}
	b.must(r.look(t.Context()))
	l := &r.lineages[0]
	if l.Lineage.Lineage != "8-g1" {
		t.Fatalf("the first lineage is %s", l.Lineage.Lineage)
	}
	for n := range removalsPerRun + 5 {
		older := l.Backups[1]
		older.ID = fmt.Sprintf("a%03d", n)
		l.Backups = append(l.Backups, older)
	}
	b.must(r.keep(t.Context()))
	next := r.next()
	if due := next[r.place("9-g1", "b000")] && next[r.place("9-g1", "b001")]; !due || len(next) != removalsPerRun {
		t.Errorf("%d get an object; those that wait only for one: %t", len(next), due)
	}
	if other := next[r.place("8-g1", "b000")] || next[r.place("8-g1", "a000")]; !other {
		t.Error("the places that are left stay empty")
	}
}

// TestALineageWhoseObjectsStayLeavesPlacesToAnother, for example because an object lock keeps their data.
func TestALineageWhoseObjectsStayLeavesPlacesToAnother(t *testing.T) {
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio"}}
	r := &run{repo: repo, memory: &memory{}, facts: &facts{repo: "minio"}, awaited: map[string]int{}, shows: map[v1alpha1.FoundBackup]bool{}}
	lineages, plans := someLineages(2, "other"), [2]retention.Plan{}
	for i, backups := range []int{3 * removalsPerRun, 2} {
		for n := range backups {
			plans[i].Verdicts = append(plans[i].Verdicts, retention.Verdict{Backup: retention.Backup{ID: fmt.Sprintf("b%03d", n)}})
		}
	}
	for n := range removalsPerRun {
		where := r.place("l0", fmt.Sprintf("b%03d", n))
		object := v1alpha1.Backup{Spec: v1alpha1.BackupSpec{Found: &where}}
		object.Status.Plan = &v1alpha1.BackupPlan{Repository: where.Repository, Lineage: where.Lineage, ID: where.ID}
		r.facts.backups = append(r.facts.backups, object)
	}
	for i := range lineages {
		r.foresee(&lineages[i], plans[i])
		r.await(&lineages[i], plans[i], true)
	}
	next := r.next()
	if want := removalsPerRun + 2; len(next) != want || !next[r.place("l0", "b000")] || !next[r.place("other", "b000")] || !next[r.place("other", "b001")] {
		t.Errorf("%d have an object, want %d: the one that has one, %t; the others', %t %t", len(next), want,
			next[r.place("l0", "b000")], next[r.place("other", "b000")], next[r.place("other", "b001")])
	}
}

// TestWALStaysWhileABackupThatNeedsItCanNotBeHeldYet, and status says so; the sweep needs no objects.
func TestWALStaysWhileABackupThatNeedsItCanNotBeHeldYet(t *testing.T) {
	b := lost(t, 3)
	b.known("8-g1")
	pruner := b.pruner()
	memory := pruner.memoryOf(b.repo.UID)
	for range 2 { // without objects, and with objects that don't say yet what they are
		b.runBy(pruner)
		if message := b.repo.Status.Retention.Message; b.segments("8-g1") != 2 || !strings.HasPrefix(message, "2 backups of lineage 8-g1 are not deleted before each has a Backup object") {
			t.Errorf("%d segments stay; %q", b.segments("8-g1"), message)
		}
		if memory.swept["8-g1"].IsZero() {
			t.Errorf("swept: %v", memory.swept)
		}
	}
	b.describe("8-g1")
	b.runBy(pruner)
	if message := b.repo.Status.Retention.Message; b.segments("8-g1") != 1 || message != "" || memory.swept["8-g1"].IsZero() || len(b.objects("8-g1")) != 1 {
		t.Errorf("%d segments and %d Backups stay; %q; swept %v", b.segments("8-g1"), len(b.objects("8-g1")), message, memory.swept)
	}
}

// TestALineageThatIsTooLargeToBeSweptKeepsNoOtherFromIt, and status describes all of them.
func TestALineageThatIsTooLargeToBeSweptKeepsNoOtherFromIt(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.claim("6-g1")
	b.fill("6-g1", 2)
	b.fill("7-g1", 2, 4)
	pruner := b.pruner()
	pruner.Open = func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
		return fault.New(b, fault.Plan{Before: func(call fault.Call) error {
			if call.Op == "list" && call.Key == layout.ClaimsPrefix("6-g1") {
				return fmt.Errorf("%w: it has too many packs", backup.ErrTooLarge)
			}
			return nil
		}}), nil
	}
	b.runBy(pruner)
	message := b.repo.Status.Retention.Message
	if b.backups("7-g1") != "b4" || len(b.repo.Status.Lineages) != 2 || !strings.Contains(message, "lineage 6-g1") || !strings.Contains(message, "it has too many packs.") {
		t.Errorf("of the other lineage %s stay, %d are described; %q", b.backups("7-g1"), len(b.repo.Status.Lineages), message)
	}
	if swept := pruner.memoryOf(b.repo.UID).swept; swept["7-g1"] != now {
		t.Errorf("swept: %v", swept)
	}
}
