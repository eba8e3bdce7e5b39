package backup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

func mustWrite(t testing.TB, store objstore.Store, dir, id string) *Manifest {
	t.Helper()
	manifest, err := Write(t.Context(), store, source(t, store, dir), Options{ID: id, Tool: "test"})
	must(t, err)
	return manifest
}

func TestABackupRestoresToTheSameTree(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	written := mustWrite(t, store, dir, "b1")
	leftOut := leaveOut(t, dir)
	read, err := ReadManifest(t.Context(), store, testLineage, "b1")
	must(t, err)
	target := filepath.Join(t.TempDir(), "restored")
	must(t, Restore(t.Context(), store, read, target, RestoreOptions{}))
	same(t, dir, target, append(leftOut, "backup_label", "base/pgsql_tmp", "pg_replslot/slot", "pg_stat_tmp")...)
	if label := readFile(t, filepath.Join(target, "backup_label")); string(label) != testLabel {
		t.Errorf("backup_label is %q", label)
	}
	if read.Totals != written.Totals || read.Totals.LogicalBytes < 5<<20 || read.Totals.StoredBytes == 0 {
		t.Errorf("totals are %+v, were written as %+v", read.Totals, written.Totals)
	}
	if read.WAL.First != "000000010000000000000002" || read.WAL.Last != "000000010000000000000003" {
		t.Errorf("needs WAL %+v", read.WAL)
	}
	verified, err := Verify(t.Context(), store, read, VerifyOptions{shortWAL: true})
	if err != nil || !verified.Whole || verified.StoredBytes < read.Totals.StoredBytes*9/10 {
		t.Errorf("verified %+v, %v", verified, err)
	}
}

func TestEveryCompressionRestoresToTheSameTree(t *testing.T) {
	for _, compression := range []Compression{CompressionBalanced, CompressionFast, CompressionSmall} {
		t.Run(string(compression), func(t *testing.T) {
			store, dir := mem.New(), pgdata(t)
			_, err := Write(t.Context(), store, source(t, store, dir), Options{ID: "b1", Compression: compression})
			must(t, err)
			read, err := ReadManifest(t.Context(), store, testLineage, "b1")
			must(t, err)
			zstd := map[bool]int{}
			for _, f := range read.Files {
				for _, part := range f.Parts {
					if part.Frame.Coding != codec.Raw {
						zstd[part.Frame.Coding.Zstd()]++
					}
				}
			}
			if fast := compression == CompressionFast; zstd[true] > 0 == fast || zstd[false] > 0 != fast {
				t.Errorf("%d frames with zstd, %d without", zstd[true], zstd[false])
			}
			target := filepath.Join(t.TempDir(), "restored")
			must(t, Restore(t.Context(), store, read, target, RestoreOptions{}))
			same(t, dir, target, append(leaveOut(t, dir), "backup_label", "base/pgsql_tmp", "pg_replslot/slot", "pg_stat_tmp")...)
		})
	}
}

func TestAnUnknownCompressionAndAnUnknownCodingAreRefused(t *testing.T) {
	store := mem.New()
	_, err := Write(t.Context(), store, source(t, store, pgdata(t)), Options{ID: "b1", Compression: "fast"})
	if !errors.Is(err, ErrFormat) {
		t.Errorf("got %v", err)
	}
	if _, err := parsePart([]byte("0,1,0,0,0,1,1,0,0,8"), &sharedFrames{}); !errors.Is(err, ErrFormat) {
		t.Errorf("coding 8: %v", err)
	}
}

func TestHolesAndZeroesAreLeftOutAndTheFilesKeepTheirLength(t *testing.T) {
	leaveOutForRaces(t)
	store, dir := mem.New(), pgdata(t)
	sparse(t, dir, 4)
	write(t, dir, "base/5/31000", make([]byte, 3<<20), 0o600)
	first := mustWrite(t, store, dir, "b1")
	if first.Totals.LogicalBytes < 4<<30 || first.Totals.StoredBytes > 16<<20 {
		t.Errorf("totals are %+v", first.Totals)
	}
	src := source(t, store, dir)
	again, err := Write(t.Context(), store, src, Options{ID: "b2", Parent: "b1"})
	must(t, err)
	for _, manifest := range []*Manifest{first, again} {
		target := t.TempDir()
		read, err := ReadManifest(t.Context(), store, testLineage, manifest.ID)
		must(t, err)
		must(t, Restore(t.Context(), store, read, target, RestoreOptions{}))
		for i := range 4 {
			sameSparse(t, filepath.Join(dir, "base/5", sparseName(i)), filepath.Join(target, "base/5", sparseName(i)))
		}
		if got := readFile(t, filepath.Join(target, "base/5/31000")); !bytes.Equal(got, make([]byte, 3<<20)) {
			t.Errorf("%s: the file of zeroes has %d bytes", manifest.ID, len(got))
		}
	}
}

// sameSparse compares the sizes and the middles of two files, and looks whether holes are holes.
func sameSparse(t *testing.T, want, got string) {
	t.Helper()
	middle := func(path string) (int64, int64, []byte) {
		file, err := os.Open(path)
		must(t, err)
		defer file.Close()
		info, err := file.Stat()
		must(t, err)
		page := make([]byte, postgres.PageSize)
		_, err = file.ReadAt(page, pagesPerSegment/2*postgres.PageSize)
		must(t, err)
		return info.Size(), info.Sys().(*syscall.Stat_t).Blocks * 512, page
	}
	sizeWant, _, pageWant := middle(want)
	size, stored, page := middle(got)
	if size != sizeWant || stored > 16<<20 || !bytes.Equal(page, pageWant) {
		t.Errorf("%s has %d bytes, %d on disk, want %d, or another page", got, size, stored, sizeWant)
	}
}

func TestAHoleIsToldFromTheEndOfAFileThatShrank(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	sparse(t, dir, 1)
	entries, err := scan(t.Context(), dir)
	must(t, err)
	must(t, os.Truncate(filepath.Join(dir, "base/5/30000"), 100<<20))
	manifest := copyEntries(t, store, dir, entries)
	for _, f := range manifest.Files {
		if f.Path == "base/5/30000" && f.Size != 100<<20 {
			t.Errorf("the file has %d bytes in the backup", f.Size)
		}
	}
}

func TestWhatBelongsToTheRunningServerIsLeftOut(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	left := leaveOut(t, dir)
	manifest := mustWrite(t, store, dir, "b1")
	for _, f := range manifest.Files {
		for _, name := range left {
			if f.Path == name {
				t.Errorf("%s is in the backup", name)
			}
		}
	}
	kept := map[string]bool{}
	for _, f := range manifest.Files {
		kept[f.Path] = true
	}
	for _, name := range []string{"pg_wal", "pg_wal/archive_status", "pg_replslot", "pg_notify", "base/5/16400_init", "global/pg_control"} {
		if !kept[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestACommittedBackupIsNotWrittenAgain(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	mustWrite(t, store, dir, "b1")
	before := keys(t, store)
	src := source(t, store, dir)
	src.Start = func(context.Context) (Started, error) { return Started{}, errors.New("must not start") }
	again, err := Write(t.Context(), store, src, Options{ID: "b1"})
	must(t, err)
	if again.ID != "b1" || len(keys(t, store)) != len(before) {
		t.Errorf("the second run changed something: %v", keys(t, store))
	}
}

func TestFilesMayGrowShrinkAndVanishDuringTheCopy(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	entries, err := scan(t.Context(), dir)
	must(t, err)
	write(t, dir, "base/5/16384", relationPages(100, 0, 100, 1), 0o600)
	write(t, dir, "base/5/16385.1", relationPages(4, pagesPerSegment, 100, 4), 0o600)
	write(t, dir, "postgresql.auto.conf", []byte("# nothing\nwork_mem = '64MB' # a longer one\n"), 0o600)
	must(t, os.Remove(filepath.Join(dir, "base/5/16384_fsm")))
	manifest := copyEntries(t, store, dir, entries)
	target := t.TempDir()
	must(t, Restore(t.Context(), store, manifest, target, RestoreOptions{}))
	if got := readFile(t, filepath.Join(target, "base/5/16384")); len(got) != 100*postgres.PageSize {
		t.Errorf("the shrunk file has %d bytes", len(got))
	}
	if got := readFile(t, filepath.Join(target, "base/5/16385.1")); len(got) != 2*postgres.PageSize {
		t.Errorf("the grown file has %d bytes", len(got))
	}
	if got := readFile(t, filepath.Join(target, "postgresql.auto.conf")); string(got) != string(readFile(t, filepath.Join(dir, "postgresql.auto.conf"))) {
		t.Errorf("the replaced configuration is %q", got)
	}
	if _, err := os.Stat(filepath.Join(target, "base/5/16384_fsm")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the vanished file is there: %v", err)
	}
}

// copyEntries makes a backup of files that were listed before.
func copyEntries(t *testing.T, store objstore.Store, dir string, entries []*entry) *Manifest {
	t.Helper()
	w := &writing{store: store, source: source(t, store, dir), opts: Options{ID: "b1"}, attempt: "x"}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	started, _, err := w.begin(ctx, cancel)
	must(t, err)
	must(t, w.copy(ctx, entries))
	must(t, w.packer.wait())
	stopped, err := w.source.Stop(ctx)
	must(t, err)
	w.manifest = w.describe(started, stopped, entries)
	manifest, err := w.commit(ctx)
	must(t, err)
	return manifest
}

func TestATablespaceIsRestoredInPlaceOrWhereItIsAskedFor(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	outside := t.TempDir()
	write(t, outside, "PG_17_202406281/5/16384", relationPages(3, 0, 100, 6), 0o600)
	must(t, os.Symlink(outside, filepath.Join(dir, "pg_tblspc/16500")))
	manifest := mustWrite(t, store, dir, "b1")

	inPlace := t.TempDir()
	must(t, Restore(t.Context(), store, manifest, inPlace, RestoreOptions{}))
	same(t, outside, filepath.Join(inPlace, "pg_tblspc/16500"), ".")
	if _, err := os.Stat(filepath.Join(inPlace, "tablespace_map")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a tablespace_map is there: %v", err)
	}

	mapped, place := t.TempDir(), filepath.Join(t.TempDir(), "space")
	must(t, Restore(t.Context(), store, manifest, mapped, RestoreOptions{Tablespaces: map[string]string{"16500": place}}))
	same(t, outside, place, ".")
	if got := readFile(t, filepath.Join(mapped, "tablespace_map")); string(got) != "16500 "+place+"\n" {
		t.Errorf("tablespace_map is %q", got)
	}
	if got, _ := os.Readlink(filepath.Join(mapped, "pg_tblspc/16500")); got != place {
		t.Errorf("the link leads to %q", got)
	}
}

func TestARestoreRefusesAFolderThatIsNotEmpty(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	manifest := mustWrite(t, store, dir, "b1")
	target := t.TempDir()
	write(t, target, "precious", []byte("x"), 0o600)
	if err := Restore(t.Context(), store, manifest, target, RestoreOptions{}); !errors.Is(err, ErrTarget) {
		t.Errorf("got %v", err)
	}
	if len(describe(t, target, nil)) != 2 {
		t.Error("something was changed")
	}
}

func TestABackupOfAFolderThatIsNoPGDATAIsRefused(t *testing.T) {
	store := mem.New()
	_, err := Write(t.Context(), store, source(t, store, t.TempDir()), Options{ID: "b1"})
	if !errors.Is(err, ErrTarget) {
		t.Errorf("got %v", err)
	}
}

func TestABackupIsNotCommittedBeforeItsWALIsArchived(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	src := source(t, store, dir)
	must(t, store.Delete(t.Context(), "lineages/"+testLineage+"/wal/00000001/000000010000000000000003"))
	_, err := Write(t.Context(), store, src, Options{ID: "b1", WALPoll: 1, WALTimeout: 1})
	if !errors.Is(err, ErrWALMissing) {
		t.Errorf("got %v", err)
	}
	if left := keys(t, store); contains(left, "manifest") || contains(left, "/packs/") {
		t.Errorf("left behind: %v", left)
	}
}

func TestProgressEndsAtItsTotal(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	var last Progress
	phases := map[Phase]bool{}
	see := func(p Progress) { last = p; phases[p.Phase] = true }
	manifest, err := Write(t.Context(), store, source(t, store, dir), Options{ID: "b1", Progress: see})
	must(t, err)
	if last.Done != last.Total || last.Stored != manifest.Totals.StoredBytes || len(phases) != 4 {
		t.Errorf("ended with %+v, phases %v, stored %d", last, phases, manifest.Totals.StoredBytes)
	}
	must(t, Restore(t.Context(), store, manifest, t.TempDir(), RestoreOptions{Progress: see}))
	if last.Done != last.Total || last.Phase != Syncing {
		t.Errorf("restore ended with %+v", last)
	}
}
