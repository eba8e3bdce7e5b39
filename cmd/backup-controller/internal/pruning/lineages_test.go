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
	}
	needed := len(all)
	for i := range 2 * maxLineages {
		all = append(all, living(fmt.Sprint("well", i), time.Duration(i)*time.Second))
		all = append(all, living(fmt.Sprint("forged", i), 0, abandoned, func(l *v1alpha1.LineageStatus) { l.Damaged = []string{"b1"} }))
	}
	slices.Reverse(all)
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo"}}
	repo.Spec.Drill = &v1alpha1.RepositoryDrill{Cluster: v1alpha1.LocalReference{Name: "shop"}}
	listed := (&Result{all: all}).listed(repo)
	for _, l := range all[len(all)-needed:] {
		if !listed[l.Name] {
			t.Errorf("%s is not listed", l.Name)
		}
	}
	if len(listed) != maxLineages || listed["forged0"] {
		t.Errorf("%d are listed, a forged one %t", len(listed), listed["forged0"])
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
