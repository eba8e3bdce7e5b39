package backup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

func TestADamagedPageFailsTheBackupByNameAndBlock(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	path := filepath.Join(dir, "base/5/16385.1")
	pages := readFile(t, path)
	pages[postgres.PageSize+4000] ^= 1
	must(t, os.WriteFile(path, pages, 0o600))
	_, err := Write(t.Context(), store, source(t, store, dir), Options{ID: "b1"})
	var damage *DamageError
	if !errors.As(err, &damage) || !errors.Is(err, ErrDamagedPages) {
		t.Fatalf("got %v", err)
	}
	want := DamagedPage{File: "base/5/16385.1", Block: pagesPerSegment + 1, LSN: 100}
	if damage.Count != 1 || damage.Pages[0] != want {
		t.Errorf("got %+v", damage)
	}
	if left := keys(t, store); contains(left, "/packs/") || contains(left, "manifest") {
		t.Errorf("left behind: %v", left)
	}
}

func TestATornPageThatWasChangedSinceTheStartIsLeftToTheWAL(t *testing.T) {
	for _, test := range []struct {
		name   string
		lsn    postgres.LSN
		damage bool
	}{
		{"before the start", 0x2000027, true},
		{"between start and stop", 0x2000029, false},
		{"after the stop, which can't be", 0x3000101, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, dir := mem.New(), pgdata(t)
			pages := relationPages(2, 0, test.lsn, 8)
			pages[300] ^= 1
			write(t, dir, "base/5/17000", pages, 0o600)
			_, err := Write(t.Context(), store, source(t, store, dir), Options{ID: "b1"})
			if errors.Is(err, ErrDamagedPages) != test.damage || (err != nil && !test.damage) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAPageThatIsTornWhileItIsReadIsReadAgain tears a page of long ago, which no WAL would fix.
func TestAPageThatIsTornWhileItIsReadIsReadAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		look   int // at which something happens
		happen func(path string, pages []byte) error
		damage bool
	}{
		{"whole at the second look", 1, func(path string, pages []byte) error { return os.WriteFile(path, pages, 0o600) }, false},
		{"whole at the last look", rereads, func(path string, pages []byte) error { return os.WriteFile(path, pages, 0o600) }, false},
		{"cut off meanwhile", 2, func(path string, _ []byte) error { return os.Truncate(path, postgres.PageSize) }, false},
		{"never whole", rereads + 1, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, dir := mem.New(), pgdata(t)
			path, pages := filepath.Join(dir, "base/5/17000"), relationPages(3, 0, 100, 8)
			torn := bytes.Clone(pages)
			copy(torn[postgres.PageSize+4096:], randomBytes(4096, 1))
			write(t, dir, "base/5/17000", torn, 0o600)
			looks := 0
			w, err := copyWith(t, store, dir, func(w *writing) {
				w.copier.checker.wait = func(context.Context, time.Duration) error {
					if looks++; looks == test.look {
						return test.happen(path, pages)
					}
					return nil
				}
			})
			if looks != min(test.look, rereads) || errors.Is(err, ErrDamagedPages) != test.damage || err != nil && !test.damage {
				t.Fatalf("after %d looks: %v", looks, err)
			}
			if test.damage || test.name == "cut off meanwhile" {
				return
			}
			target := filepath.Join(t.TempDir(), "restored")
			must(t, Restore(t.Context(), store, w.manifest, target, RestoreOptions{}))
			same(t, dir, target, "backup_label")
		})
	}
}

// copyWith makes a backup with something changed in the copier.
func copyWith(t *testing.T, store objstore.Store, dir string, change func(*writing)) (*writing, error) {
	t.Helper()
	w := &writing{store: store, source: source(t, store, dir), opts: Options{ID: "b1"}, attempt: "x"}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	started, entries, err := w.begin(ctx, cancel)
	must(t, err)
	change(w)
	must(t, w.copy(ctx, entries))
	must(t, w.packer.wait())
	stopped, err := w.source.Stop(ctx)
	must(t, err)
	if err := w.findDamage(stopped); err != nil {
		return w, err
	}
	w.manifest = w.describe(started, stopped, entries)
	_, err = w.commit(ctx)
	return w, err
}

func TestWithoutChecksumsPagesAreNotChecked(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	write(t, dir, "base/5/17000", randomBytes(postgres.PageSize, 5), 0o600)
	src := source(t, store, dir)
	src.DataChecksums = false
	_, err := Write(t.Context(), store, src, Options{ID: "b1"})
	must(t, err)
}

// damage spoils a page of a relation of pgdata, as a disk does that returns other bytes.
func damage(t *testing.T, dir, name string, pages ...int) {
	t.Helper()
	path := filepath.Join(dir, name)
	content := readFile(t, path)
	for _, page := range pages {
		content[page*postgres.PageSize+4000] ^= 1
	}
	must(t, os.WriteFile(path, content, 0o600))
}

func TestABackupThatReportsDamageListsThePagesAndHasThemAsTheyAre(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	damage(t, dir, "base/5/16385.1", 1)
	_, err := Write(t.Context(), store, source(t, store, dir), Options{ID: "b1", ReportDamage: true})
	must(t, err)
	m, err := ReadManifest(t.Context(), store, testLineage, "b1")
	must(t, err)
	want := DamagedPage{File: "base/5/16385.1", Block: pagesPerSegment + 1, LSN: 100}
	if m.Damage == nil || m.Damage.Count != 1 || len(m.Damage.Pages) != 1 || m.Damage.Pages[0] != want {
		t.Fatalf("the manifest lists %+v", m.Damage)
	}
	target := filepath.Join(t.TempDir(), "restored")
	must(t, Restore(t.Context(), store, m, target, RestoreOptions{}))
	same(t, dir, target, "backup_label")
}

func TestAnIncrementalBackupReadsThePagesAgainThatAreDamagedInItsParent(t *testing.T) {
	leaveOutForRaces(t)
	for _, summarize := range []bool{false, true} {
		d, _ := withBigRelation(t, summarize)
		d.reportDamage = true
		damage(t, d.dir, bigRelation, 7, 9)
		full, _ := d.backup("")
		if full.Damage == nil || full.Damage.Count != 2 {
			t.Fatalf("the full one lists %+v", full.Damage)
		}
		damage(t, d.dir, bigRelation, 7) // that is, undo it
		next, kept := d.backup(full.ID)
		if next.Type != Incremental || next.Damage == nil || next.Damage.Count != 1 || next.Damage.Pages[0].Block != 9 {
			t.Errorf("summaries %t: %s, %q, lists %+v", summarize, next.Type, next.Why, next.Damage)
		}
		d.restores(next, kept)
		damage(t, d.dir, bigRelation, 9)
		last, kept := d.backup(next.ID)
		if last.Type != Incremental || last.Damage != nil {
			t.Errorf("summaries %t: %s, %q, lists %+v", summarize, last.Type, last.Why, last.Damage)
		}
		d.restores(last, kept)
	}
}

func TestNoBackupBuildsOnMoreDamageThanIsListed(t *testing.T) {
	leaveOutForRaces(t)
	d, _ := withBigRelation(t, true)
	d.reportDamage = true
	var pages []int
	for page := range maxDamaged + 1 {
		pages = append(pages, page)
	}
	damage(t, d.dir, bigRelation, pages...)
	full, _ := d.backup("")
	if full.Damage == nil || full.Damage.Count != maxDamaged+1 || len(full.Damage.Pages) != maxDamaged {
		t.Fatalf("lists %+v", full.Damage)
	}
	damage(t, d.dir, bigRelation, pages...)
	next, _ := d.backup(full.ID)
	if next.Type != Full || next.Damage != nil || next.Why == "" {
		t.Errorf("%s, %q, lists %+v", next.Type, next.Why, next.Damage)
	}
}
