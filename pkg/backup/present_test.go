package backup

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// deltaRestore restores beside a present directory, checks that this stays as it is, and returns how far it came.
func deltaRestore(t testing.TB, store objstore.Store, manifest *Manifest, present string, opts RestoreOptions) (target string, last Progress) {
	t.Helper()
	before := describe(t, present, []string{"pipe"})
	target = filepath.Join(t.TempDir(), "restored")
	opts.Present, opts.Progress = present, func(p Progress) { last = p }
	must(t, Restore(t.Context(), store, manifest, target, opts))
	after := describe(t, present, []string{"pipe"})
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%q of the present directory has become %.80q, it was %.80q", name, after[name], text)
		}
	}
	if len(after) != len(before) {
		t.Errorf("the present directory has %d files, it had %d", len(after), len(before))
	}
	if last.Done != last.Total || last.Taken > last.Done {
		t.Errorf("it ended at %+v", last)
	}
	return target, last
}

func copyOf(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "present")
	must(t, exec.Command("cp", "-a", dir, to).Run())
	return to
}

const presentRelation = "base/5/20000.1"

// changesSince are what may have become of a data directory since the backup, and whether any of it is still the same.
var changesSince = map[string]struct {
	harm func(t *testing.T, dir string)
	all  bool // everything can be taken
	none bool // nothing can be taken
}{
	"nothing": {func(*testing.T, string) {}, true, false},
	"a page was changed": {harm: func(t *testing.T, dir string) {
		writeAt(t, filepath.Join(dir, presentRelation), relationPages(1, pagesPerSegment, 900, 5), 77*postgres.PageSize)
	}},
	"a file has become shorter": {harm: func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, presentRelation), 1<<20+5)) }},
	"a file is empty":           {harm: func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, presentRelation), 0)) }},
	"a file was dropped":        {harm: func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, presentRelation))) }},
	"a file has grown":          {func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, presentRelation), 1<<26)) }, true, false},
	"there are more files":      {func(t *testing.T, dir string) { write(t, dir, "base/5/99999", []byte("x"), 0o600) }, true, false},
	"a folder is in a file's place": {harm: func(t *testing.T, dir string) {
		replace(t, dir, func(path string) error { return os.Mkdir(path, 0o700) })
	}},
	"a pipe is in a file's place": {harm: func(t *testing.T, dir string) {
		replace(t, dir, func(path string) error { return unix.Mkfifo(path, 0o600) })
	}},
	"a link leads out": {harm: func(t *testing.T, dir string) {
		replace(t, dir, func(path string) error { return os.Symlink("/etc/passwd", path) })
	}},
	"there is a file of another name": {harm: func(t *testing.T, dir string) {
		must(t, os.Rename(filepath.Join(dir, presentRelation), filepath.Join(dir, "moved")))
	}},
	"every file is other": {func(t *testing.T, dir string) {
		must(t, exec.Command("find", dir, "-type", "f", "-exec", "truncate", "--size=1", "{}", "+").Run())
	}, false, true},
	"it is empty":                      {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)); must(t, os.Mkdir(dir, 0o700)) }, false, true},
	"content was made to have its CRC": {harm: func(t *testing.T, dir string) { forge(t, filepath.Join(dir, presentRelation)) }},
}

func replace(t *testing.T, dir string, by func(path string) error) {
	path := filepath.Join(dir, presentRelation)
	must(t, os.Remove(path))
	must(t, by(path))
}

func writeAt(t testing.TB, path string, content []byte, offset int64) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteAt(content, offset)
	must(t, err)
	must(t, file.Close())
}

// forge changes content such that no CRC-32C sees it: by the polynomial itself.
func forge(t *testing.T, path string) {
	content := readFile(t, path)
	before := codec.CRC(content[:1<<20])
	at := content[5000:]
	binary.LittleEndian.PutUint64(at, binary.LittleEndian.Uint64(at)^(1|0x82F63B78<<1))
	if codec.CRC(content[:1<<20]) != before {
		t.Fatal("the CRC has changed")
	}
	writeAt(t, path, content, 0)
}

func TestARestoreTakesFromThePresentDirectoryWhatIsStillTheSame(t *testing.T) {
	leaveOutForRaces(t)
	store, dir := mem.New(), pgdata(t)
	write(t, dir, presentRelation, relationPages(4<<20/postgres.PageSize, pagesPerSegment, 100, 1), 0o600)
	manifest := mustWrite(t, store, dir, "b1")
	for name, test := range changesSince {
		t.Run(name, func(t *testing.T) {
			present := copyOf(t, dir)
			test.harm(t, present)
			target, last := deltaRestore(t, store, manifest, present, RestoreOptions{})
			same(t, dir, target, "backup_label", "pg_wal", "pg_replslot")
			if all := last.Taken == last.Total && last.Stored == 0; all != test.all {
				t.Errorf("everything was taken: %t, at %+v", all, last)
			}
			if none := last.Taken == 0; none != test.none {
				t.Errorf("nothing was taken: %t, at %+v", none, last)
			}
		})
	}
	t.Run("it is missing", func(t *testing.T) {
		target := filepath.Join(t.TempDir(), "restored")
		must(t, Restore(t.Context(), store, manifest, target, RestoreOptions{Present: filepath.Join(dir, "nowhere")}))
		same(t, dir, target, "backup_label", "pg_wal", "pg_replslot")
	})
}

func TestOnePageThatWasChangedCostsOneFrame(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	write(t, dir, presentRelation, relationPages(4<<20/postgres.PageSize, pagesPerSegment, 100, 1), 0o600)
	manifest := mustWrite(t, store, dir, "b1")
	present := copyOf(t, dir)
	changesSince["a page was changed"].harm(t, present)
	_, last := deltaRestore(t, store, manifest, present, RestoreOptions{})
	if fetched := last.Total - last.Taken; fetched <= 0 || fetched > 2*minFrame || last.Stored > 2*minFrame {
		t.Errorf("%d bytes were not taken, at %+v", fetched, last)
	}
}

func TestABackupWithoutDigestsIsFetchedWhole(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	manifest := mustWrite(t, store, dir, "b1")
	for i := range manifest.Files {
		for j := range manifest.Files[i].Parts {
			manifest.Files[i].Parts[j].Frame.Digest = 0
		}
	}
	object, err := encodeManifest(manifest)
	must(t, err)
	manifest, err = decodeManifest(object)
	must(t, err)
	target, last := deltaRestore(t, store, manifest, dir, RestoreOptions{})
	same(t, dir, target, "backup_label", "pg_wal", "pg_replslot")
	if last.Taken != 0 {
		t.Errorf("%d bytes were taken", last.Taken)
	}
}

func TestTablespacesAreTakenFromBehindTheirLinks(t *testing.T) {
	store, dir, elsewhere := mem.New(), pgdata(t), t.TempDir()
	write(t, elsewhere, "PG_17_202406281/5/16500", relationPages(200, 0, 100, 6), 0o600)
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "pg_tblspc/16500")))
	manifest := mustWrite(t, store, dir, "b1")
	for name, places := range map[string]map[string]string{
		"in place": nil, "elsewhere": {"16500": filepath.Join(t.TempDir(), "space")},
	} {
		t.Run(name, func(t *testing.T) {
			target, last := deltaRestore(t, store, manifest, dir, RestoreOptions{Tablespaces: places})
			same(t, elsewhere, filepath.Join(target, "pg_tblspc/16500")+"/", ".")
			if last.Taken != last.Total || last.Stored != 0 {
				t.Errorf("it ended at %+v", last)
			}
		})
	}
}

func TestWhatIsPresentHelpsWhereTheStoreIsDamaged(t *testing.T) {
	store, dir := mem.New(), pgdata(t)
	manifest := mustWrite(t, store, dir, "b1")
	for _, key := range keys(t, store) {
		if contains([]string{key}, "/packs/") {
			must(t, store.Delete(t.Context(), key))
		}
	}
	target, _ := deltaRestore(t, store, manifest, dir, RestoreOptions{})
	same(t, dir, target, "backup_label", "pg_wal", "pg_replslot")
}
