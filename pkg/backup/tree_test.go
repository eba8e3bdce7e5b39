package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	testLineage = "7412345678901234567-g1"
	testLabel   = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n"
)

var (
	testStart = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	testSeg   = uint64(postgres.DefaultSegSize)
)

// write puts a file into a folder, with its parents.
func write(t testing.TB, dir, name string, content []byte, mode fs.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, content, mode))
	must(t, os.Chmod(path, mode))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// relationPages makes pages as PostgreSQL writes them, with checksums, about half compressible.
func relationPages(count int, first uint32, lsn postgres.LSN, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	pages := make([]byte, count*postgres.PageSize)
	for i := range count {
		page := pages[i*postgres.PageSize:][:postgres.PageSize]
		binary.LittleEndian.PutUint32(page, uint32(lsn>>32))
		binary.LittleEndian.PutUint32(page[4:], uint32(lsn))
		binary.LittleEndian.PutUint16(page[12:], 100)
		binary.LittleEndian.PutUint16(page[14:], 200)
		for at := 200; at < postgres.PageSize; at += 16 {
			binary.LittleEndian.PutUint64(page[at:], random.Uint64())
		}
		binary.LittleEndian.PutUint16(page[8:], postgres.PageChecksum(page, first+uint32(i)))
	}
	return pages
}

func randomBytes(n int, seed uint64) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed)})
	b := make([]byte, n)
	_, _ = random.Read(b)
	return b
}

// pgdata makes a folder with every kind of file that a backup meets.
func pgdata(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pgdata")
	write(t, dir, "PG_VERSION", []byte("17\n"), 0o600)
	write(t, dir, "global/pg_control", randomBytes(8192, 9), 0o600)
	write(t, dir, "global/1262", relationPages(1, 0, 100, 3), 0o600)
	write(t, dir, "base/5/16384", relationPages(300, 0, 100, 1), 0o600)
	write(t, dir, "base/5/16384_fsm", relationPages(3, 0, 0, 2), 0o600)
	write(t, dir, "base/5/16385.1", relationPages(2, pagesPerSegment, 100, 4), 0o600)
	write(t, dir, "base/5/16390", make([]byte, 5*postgres.PageSize), 0o600)
	write(t, dir, "base/5/16400_init", relationPages(1, 0, 100, 5), 0o600)
	write(t, dir, "base/5/empty", nil, 0o640)
	write(t, dir, "noise", randomBytes(3<<20+77, 7), 0o600)
	write(t, dir, "sch\u00f6n/\u6570\u636e.conf", []byte("x = 1\n"), 0o644)
	write(t, dir, "bad\xffname", []byte("latin"), 0o600)
	write(t, dir, "postgresql.auto.conf", []byte("# nothing\n"), 0o600)
	must(t, os.Chmod(filepath.Join(dir, "sch\u00f6n"), 0o750))
	for _, empty := range []string{"pg_wal/archive_status", "pg_replslot", "pg_notify", "pg_tblspc", "pg_stat"} {
		must(t, os.MkdirAll(filepath.Join(dir, empty), 0o700))
	}
	must(t, os.Symlink("postgresql.auto.conf", filepath.Join(dir, "link.conf")))
	return dir
}

// leaveOut adds what must not be in a backup.
func leaveOut(t testing.TB, dir string) []string {
	names := []string{
		"postmaster.pid", "postmaster.opts", "backup_label.old", "standby.signal", "pg_wal/000000010000000000000001",
		"pg_replslot/slot/state", "pg_notify/0000", "pg_stat_tmp/x", "base/5/16400", "base/5/16400.1", "base/5/16400_vm",
		"base/5/t3_16500", "base/5/pg_internal.init", "base/pgsql_tmp/pgsql_tmp1.0", "global/pg_internal.init.17",
	}
	for _, name := range names {
		write(t, dir, name, []byte("must not be stored"), 0o600)
	}
	return names
}

// source is a database whose backup starts and stops, and whose WAL is in the archive of the store.
func source(t testing.TB, store objstore.Store, dir string) Source {
	t.Helper()
	archive := wal.New(store)
	for number := uint64(2); number <= 3; number++ {
		segment := postgres.Segment{Timeline: 1, Number: number, SegSize: testSeg}
		must(t, archive.Put(t.Context(), testLineage, segment.Name(), []byte("wal"), wal.Info{Writer: "test"}))
	}
	return Source{
		DataDir: dir,
		Start: func(context.Context) (Started, error) {
			return Started{LSN: 0x2000028, Timeline: 1, Time: testStart}, nil
		},
		Stop: func(context.Context) (Stopped, error) {
			return Stopped{LSN: 0x3000100, Time: testStart.Add(time.Minute), BackupLabel: testLabel}, nil
		},
		Lineage: testLineage, SystemIdentifier: "7412345678901234567", PGVersion: "17.5", PGMajor: 17,
		DataChecksums: true, WALSegmentSize: testSeg, Cluster: Cluster{Namespace: "demo", Name: "shop", UID: "u1"},
	}
}

// same compares two trees, byte for byte and mode for mode.
func same(t testing.TB, want, got string, ignore ...string) {
	t.Helper()
	wanted, found := describe(t, want, ignore), describe(t, got, ignore)
	for name, text := range wanted {
		if found[name] != text {
			t.Errorf("%q is %.80q, want %.80q", name, found[name], text)
		}
	}
	for name := range found {
		if _, ok := wanted[name]; !ok {
			t.Errorf("%q should not be there", name)
		}
	}
}

func describe(t testing.TB, dir string, ignore []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		for _, prefix := range ignore {
			if name == prefix || strings.HasPrefix(name, prefix+"/") {
				return nil
			}
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String() + " "
		if entry.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf("%d bytes %08x", len(content), bytesSum(content))
		}
		if entry.Type() == fs.ModeSymlink {
			target, _ := os.Readlink(path)
			text += target
		}
		all[name] = text
		return nil
	}))
	return all
}

func bytesSum(b []byte) uint64 {
	sum := uint64(14695981039346656037)
	for _, c := range b {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	return sum
}

func keys(t testing.TB, store objstore.Store) []string {
	t.Helper()
	var all []string
	for info, err := range store.List(context.Background(), "", "") {
		must(t, err)
		all = append(all, info.Key)
	}
	return all
}

func contains(list []string, part string) bool {
	for _, s := range list {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return bytes.Clone(content)
}

// leaveOutForRaces leaves a test that packs a lot to the run without the race detector, which `make test` has as well.
func leaveOutForRaces(t *testing.T) {
	t.Helper()
	if raceDetector && testing.Short() {
		t.Skip("the race detector makes it twenty times slower")
	}
}

// A backup says nothing of where its cluster had its WAL: it is restored onto one volume or two.
func TestAFolderOfWALOnAVolumeOfItsOwnIsBackedUpAsAFolder(t *testing.T) {
	dir, volume := pgdata(t), t.TempDir()
	must(t, os.RemoveAll(filepath.Join(dir, "pg_wal")))
	must(t, os.Symlink(volume, filepath.Join(dir, "pg_wal")))
	write(t, volume, "000000010000000000000001", []byte("wal"), 0o600)
	must(t, os.MkdirAll(filepath.Join(volume, "archive_status"), 0o700))
	entries, err := scan(t.Context(), dir)
	must(t, err)
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Path, "pg_wal") {
			found = append(found, fmt.Sprintf("%s %s %s", e.Path, e.Kind, e.Link))
		}
	}
	if want := []string{"pg_wal dir ", "pg_wal/archive_status dir "}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}
