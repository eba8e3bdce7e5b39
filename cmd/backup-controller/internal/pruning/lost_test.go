package pruning

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// lost is a bucket with lineage 8-g1 of a cluster that is no more, of which only the last copy is kept.
func lost(t *testing.T, backups int) *bucket {
	t.Helper()
	b := newBucket(t, v1alpha1.RetentionSpec{KeepWithin: "1d", NoticePeriod: &metav1.Duration{}})
	b.Store = mem.NewAt(func() time.Time { return b.clock })
	b.lose("8-g1", backups)
	return b
}

// lose adds the backups of a lineage of that cluster, which need segment 2 of two and were written on day 5.
func (b *bucket) lose(lineage string, backups int) {
	b.Helper()
	b.clock = at(5)
	defer func() { b.clock = now }()
	_, err := layout.Claim(b.Context(), b, layout.Lineage{
		Lineage: lineage, Writer: layout.Writer{UID: "u8", Namespace: "demo", Name: "lost"}, SegmentSize: segmentSize, Created: at(0),
	})
	b.must(err)
	for number := uint64(1); number <= 2; number++ {
		name := postgres.Segment{Timeline: 1, Number: number, SegSize: segmentSize}.Name()
		b.must(wal.New(b).Put(b.Context(), lineage, name, []byte(name), wal.Info{Writer: "test"}))
	}
	dir := b.TempDir()
	b.must(errors.Join(
		os.MkdirAll(filepath.Join(dir, "global"), 0o700), os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "global/pg_control"), []byte(strings.Repeat("c", 8192)), 0o600),
	))
	for n := range backups {
		began := at(2).Add(time.Duration(n) * time.Second)
		_, err := backup.Write(b.Context(), b, backup.Source{
			DataDir: dir, Lineage: lineage, SystemIdentifier: "8", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segmentSize,
			Cluster: backup.Cluster{Namespace: "demo", Name: "lost", UID: "u8"},
			Start: func(context.Context) (backup.Started, error) {
				return backup.Started{LSN: 2*segmentSize + 40, Timeline: 1, Time: began}, nil
			},
			Stop: func(context.Context) (backup.Stopped, error) {
				return backup.Stopped{LSN: 2*segmentSize + 100, Time: began, BackupLabel: "x"}, nil
			},
		}, backup.Options{ID: fmt.Sprintf("b%03d", n)})
		b.must(err)
	}
}

// pruner remembers what it has seen.
func (b *bucket) pruner() *Pruner {
	return &Pruner{
		Dependencies: manager.Dependencies{Client: b.api, Live: b.api, Events: silent{}, Now: func() time.Time { return now }}, Deletions: &deletionlock.Locks{},
		Open: func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
			return b, nil
		},
	}
}

func (b *bucket) runBy(pruner *Pruner) Result {
	b.Helper()
	result := pruner.Run(b.Context(), b.repo, "")
	b.must(result.Err)
	result.Report(b.repo, error.Error)
	return result
}

// Who restarts would not know any more since when the lineage was known, and so since when its windows count.
func TestNothingIsRemovedFromALostLineageBeforeStatusSaysSinceWhenItIsKnown(t *testing.T) {
	b := lost(t, 3)
	b.repo.Spec.Catalogue = v1alpha1.CatalogueOff
	pruner := b.pruner()
	pruner.memoryOf(b.repo.UID).seen = map[string]time.Time{"8-g1": at(5)}
	if result := b.runBy(pruner); b.backups("8-g1") != "b000 b001 b002" || !result.Again || !strings.Contains(b.repo.Status.Retention.Message, "before status.lineages says since when it is known") {
		t.Errorf("backups %s stay; %q", b.backups("8-g1"), b.repo.Status.Retention.Message)
	}
	if result := b.runBy(b.pruner()); b.backups("8-g1") != "b002" || result.Again {
		t.Errorf("backups %s stay; %+v", b.backups("8-g1"), b.repo.Status.Retention)
	}
}

func TestStatusHasRoomForALostLineageThatLosesSomething(t *testing.T) {
	r := Result{losing: []string{"old"}}
	for i, l := range someLineages(maxLineages+7, "old") {
		r.all = append(r.all, v1alpha1.LineageStatus{Name: l.Lineage.Lineage, LastWritten: stamp(now.Add(-time.Duration(i) * time.Hour))})
	}
	listed := r.listed(&v1alpha1.BackupRepository{})
	if len(listed) != maxLineages || !listed["old"] || !listed["l0"] || !r.Again {
		t.Errorf("%d are listed, the old one %t, the newest %t, %t", len(listed), listed["old"], listed["l0"], r.Again)
	}
}

// TestABackupThatCouldBeHeldIsNotDeletedBeforeItHasAnObject, for which there may be no room with the first run.
func TestABackupThatCouldBeHeldIsNotDeletedBeforeItHasAnObject(t *testing.T) {
	b := lost(t, 2)
	pruner := b.pruner()
	r := &run{
		Pruner: pruner, memory: pruner.memoryOf(b.repo.UID), repo: b.repo, store: b, now: now, facts: &facts{}, awaited: map[string]int{},
	}
	l, going := someLineages(1, "8-g1")[0], retention.Plan{Verdicts: []retention.Verdict{{Backup: retention.Backup{ID: "b000"}}}}
	r.await(&l, going, true)
	waits, err := r.removeBackup(b.Context(), "8-g1", "b000")
	b.must(err)
	if where := r.place("8-g1", "b000"); b.backups("8-g1") != "b000 b001" || !r.next()[where] || !waits {
		t.Errorf("backups %s stay, and %v get an object; it waits %t", b.backups("8-g1"), r.next(), waits)
	}
	r.awaited = map[string]int{} // that of a lineage that is given up
	waits, err = r.removeBackup(b.Context(), "8-g1", "b000")
	b.must(err)
	if b.backups("8-g1") != "b001" || waits {
		t.Errorf("backups %s stay, it waits %t", b.backups("8-g1"), waits)
	}
}

func someLineages(n int, last string) []inventory.Lineage {
	lineages := make([]inventory.Lineage, n)
	for i := range lineages {
		lineages[i].Lineage.Lineage = fmt.Sprint("l", i)
	}
	lineages[n-1].Lineage.Lineage = last
	return lineages
}
