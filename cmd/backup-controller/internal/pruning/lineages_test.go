package pruning

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

// living is the status of a lineage that a cluster writes, and wrote so long ago.
func living(name string, ago time.Duration, change ...func(*v1alpha1.LineageStatus)) v1alpha1.LineageStatus {
	l := v1alpha1.LineageStatus{Name: name, Living: true, Backups: 1, LastBackup: stamp(now.Add(-ago)), LastWritten: stamp(now.Add(-ago))}
	for _, do := range change {
		do(&l)
	}
	return l
}

// Many lineages that are well must not hide the one that needs a person.
func TestStatusHasRoomForTheLineagesThatNeedAPerson(t *testing.T) {
	abandoned := func(l *v1alpha1.LineageStatus) { l.Living = false }
	all := []v1alpha1.LineageStatus{
		living("drilled", 0, abandoned, func(l *v1alpha1.LineageStatus) { l.Cluster = "demo/shop" }),
		living("stalled", 100*time.Hour),
		living("incomplete", 0, func(l *v1alpha1.LineageStatus) { l.MissingWAL = "000000010000000000000007" }),
		living("failed", time.Hour, func(l *v1alpha1.LineageStatus) { l.LastFailure = stamp(now) }),
		living("without a backup", 0, func(l *v1alpha1.LineageStatus) { l.Backups, l.LastBackup = 0, nil }),
		living("damaged", 0, func(l *v1alpha1.LineageStatus) { l.Damaged = []string{"b1"} }),
		living("unreadable", 0, func(l *v1alpha1.LineageStatus) { l.Unreadable, l.LastWritten = "lineage.json is missing", nil }),
		living("awaited", 200*time.Hour, abandoned),
	}
	needed := len(all)
	for i := range 2 * maxLineages {
		all = append(all, living(fmt.Sprint("well", i), time.Duration(i)*time.Second))
		all = append(all, living(fmt.Sprint("forged", i), 0, abandoned, func(l *v1alpha1.LineageStatus) { l.Damaged = []string{"b1"} }))
	}
	slices.Reverse(all)
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}
	repo.Spec.Drill = &v1alpha1.RepositoryDrill{Cluster: v1alpha1.LocalReference{Name: "shop"}}
	listed := (&Result{all: all, awaited: map[string]bool{"awaited": true}}).listed(repo)
	for _, l := range all[len(all)-needed:] {
		if !listed[l.Name] {
			t.Errorf("%s is not listed", l.Name)
		}
	}
	if len(listed) != maxLineages || listed["forged0"] {
		t.Errorf("%d are listed, a forged one %t", len(listed), listed["forged0"])
	}
}

// A cluster that was restored in place or upgraded may go back to its previous data. Whoever can write to the bucket can forge others.
func TestStatusListsWhatClustersHaveWrittenBeforeWhatNobodyHereKnows(t *testing.T) {
	all := []v1alpha1.LineageStatus{}
	for i := range maxLineages - 2 {
		all = append(all, living(fmt.Sprint("well", i), 0))
	}
	for i := range maxLineages {
		all = append(all, v1alpha1.LineageStatus{Name: fmt.Sprint("forged", i), Damaged: []string{"b1"}, LastWritten: stamp(now)})
	}
	for i := range 3 {
		all = append(all, v1alpha1.LineageStatus{Name: fmt.Sprint("previous", i), WrittenHere: true, Backups: 1, LastWritten: stamp(now.Add(-time.Duration(i) * time.Hour))})
	}
	listed := (&Result{all: all}).listed(&v1alpha1.BackupRepository{})
	if !listed["previous0"] || !listed["previous1"] || listed["previous2"] {
		t.Errorf("of the previous ones, %t, %t and %t are listed", listed["previous0"], listed["previous1"], listed["previous2"])
	}
}

func TestARestoreThatAwaitsADecisionHasTheLineageOfItsPreviousDataListed(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{})
	for i := range maxLineages + 10 {
		b.claim(fmt.Sprintf("%d-g1", 8+i))
	}
	b.claim("7-g0")
	restore := func(name string, change func(*v1alpha1.RestoreStatus)) {
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: b.repo.Namespace, Name: name}}
		r.Status.Previous = &v1alpha1.PreviousData{DataGeneration: "g0", SystemIdentifier: "7", Repository: b.repo.Name}
		change(&r.Status)
		if err := b.api.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	is := func() bool {
		b.run()
		return slices.ContainsFunc(b.repo.Status.Lineages, func(l v1alpha1.LineageStatus) bool { return l.Name == "7-g0" })
	}
	restore("done", func(s *v1alpha1.RestoreStatus) { s.CompletedAt = stamp(now) })
	restore("elsewhere", func(s *v1alpha1.RestoreStatus) { s.Previous.Repository = "other" })
	if is() {
		t.Error("a lineage that nobody awaits is listed before others")
	}
	restore("waiting", func(*v1alpha1.RestoreStatus) {})
	if !is() {
		t.Error("the lineage of previous data is not listed, so it is never given up")
	}
}

// Metrics and their alerts are about each lineage, however many there are.
func TestEachLineageIsKnownAlthoughStatusHasRoomForFew(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{})
	const many = maxLineages + 10
	for i := range many - 1 {
		b.claim(fmt.Sprintf("%d-g1", 8+i))
	}
	b.repo.Status.Lineages = []v1alpha1.LineageStatus{{Name: "as before"}}
	pruner := b.pruner()
	if got := pruner.Lineages(b.repo); len(got) != 1 {
		t.Errorf("%d lineages before a run has ended", len(got))
	}
	b.runBy(pruner)
	if got := pruner.Lineages(b.repo); len(got) != many || len(b.repo.Status.Lineages) != maxLineages {
		t.Errorf("%d lineages, and %d in status", len(got), len(b.repo.Status.Lineages))
	}
	again := b.pruner() // another process
	if got := again.Lineages(b.repo); len(got) != maxLineages {
		t.Errorf("%d lineages after a restart", len(got))
	}
}
