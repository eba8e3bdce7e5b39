package backup

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// onDisk is a store that keeps packs in files, so that they take no memory.
type onDisk struct {
	*mem.Store
	dir string
	all bool // manifests, too
}

func (d onDisk) path(key string) string { return filepath.Join(d.dir, hex.EncodeToString([]byte(key))) }

func (d onDisk) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if inFile := strings.Contains(key, "/packs/") || d.all && strings.Contains(key, "/backups/"); !inFile {
		return d.Store.Put(ctx, key, body, opts)
	}
	if err := os.WriteFile(d.path(key), body, 0o600); err != nil {
		return err
	}
	opts.CRC32C = nil // it is that of the file
	return d.Store.Put(ctx, key, nil, opts)
}

func (d onDisk) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	body, err := os.ReadFile(d.path(key))
	if errors.Is(err, os.ErrNotExist) {
		return d.Store.Get(ctx, key, limit)
	}
	return body, err
}

func (d onDisk) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range d.Store.List(ctx, prefix, after) {
			if stat, errStat := os.Stat(d.path(info.Key)); errStat == nil {
				info.Size = stat.Size()
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (d onDisk) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	file, err := os.Open(d.path(key))
	if errors.Is(err, os.ErrNotExist) {
		return d.Store.ReadAt(ctx, key, p, off)
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, err := file.ReadAt(p, off)
	if errors.Is(err, io.EOF) && n < len(p) {
		return n, &objstore.Error{Op: "read", Key: key, Kind: objstore.ErrTorn}
	}
	return n, nil
}

// bulk adds a relation of this many MiB, half compressible, to a data directory.
func bulk(t testing.TB, dir string, mebibytes int) {
	t.Helper()
	for i := range mebibytes / 64 {
		name := fmt.Sprintf("base/5/20000.%d", i+1)
		write(t, dir, name, relationPages(64<<20/postgres.PageSize, uint32(i+1)*pagesPerSegment, 100, uint64(i)), 0o600)
	}
}

// sparseSegments make a relation of 16 GiB.
const sparseSegments = 16

// sparse adds a relation that is almost all holes: one page in the middle of every other segment is not.
func sparse(t testing.TB, dir string, segments int) {
	t.Helper()
	for i := range segments {
		path := filepath.Join(dir, "base/5", sparseName(i))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		must(t, err)
		must(t, file.Truncate(1<<30))
		if i%2 == 1 {
			block := uint32(pagesPerSegment / 2)
			page := relationPages(1, uint32(i)*pagesPerSegment+block, 100, uint64(i))
			_, err := file.WriteAt(page, int64(block)*postgres.PageSize)
			must(t, err)
		}
		must(t, file.Close())
	}
}

func sparseName(segment int) string {
	if segment == 0 {
		return "30000"
	}
	return fmt.Sprintf("30000.%d", segment)
}

// manyTables makes a database with this many small tables: each has one page, and an index of one.
func manyTables(t testing.TB, dir string, count int) {
	t.Helper()
	page := relationPages(1, 0, 100, 12)
	must(t, os.Mkdir(filepath.Join(dir, "base/6"), 0o700))
	for i := range 2 * count {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("base/6/%d", 100000+i)), page, 0o600))
	}
}

const (
	memoryData  = 384 // MiB of data
	memoryBound = 128 // MiB of resident memory
	// memoryBoundOfTables has room for the manifest of tens of thousands of files; the Job's pod may have 256 MiB.
	memoryBoundOfTables = 192
	memoryEnv           = "HOWDAH_TEST_MEMORY"
	limitEnv            = "HOWDAH_TEST_MEMORY_LIMIT"
	memoryMark          = "peak KiB: "
)

// TestMemoryStaysBoundedWhateverTheSizeOfTheDatabase measures processes of their own, because the
// peak of this one is that of all its tests.
func TestMemoryStaysBoundedWhateverTheSizeOfTheDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("writes several hundred MiB")
	}
	dir := pgdata(t)
	bulk(t, dir, memoryData)
	sparse(t, dir, sparseSegments)
	measureMemory(t, dir, memoryBound, "write", "restore", "delta-restore")
}

func TestTwentyThousandTablesComeBackAndFitIntoTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 40,000 files, twice")
	}
	dir := pgdata(t)
	manyTables(t, dir, 20_000)
	bulk(t, dir, 192) // enough to fill every buffer
	place := measureMemory(t, dir, memoryBoundOfTables, "write", "restore")
	same(t, filepath.Join(dir, "base/6"), filepath.Join(place, "restored/base/6"))
}

// TestWhatManyFilesNeedIsKnownBefore a Job is killed for it, and is not far from what they take.
func TestWhatManyFilesNeedIsKnownBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 300,000 files")
	}
	const files = 300_000
	dir := pgdata(t)
	manyTables(t, dir, files/2)
	store := mem.New()
	_, err := Write(t.Context(), store, source(t, store, dir), Options{ID: "b1", Memory: 256 << 20})
	lack := &MemoryError{}
	if !errors.As(err, &lack) || lack.Need > 600<<20 || contains(keys(t, store), "/b1/") {
		t.Fatalf("a backup with the memory that is usual: %v", err)
	}
	t.Setenv(limitEnv, strconv.FormatInt(lack.Need, 10))
	t.Logf("%v", lack)
	place := measureMemory(t, dir, int(lack.Need>>20), "write")
	measureMemoryIn(t, place, dir, int(lack.Need>>20), "verify", "restore")
}

// measureMemory does works on a directory, and returns where.
func measureMemory(t *testing.T, dir string, bound int, works ...string) string {
	t.Helper()
	place := t.TempDir()
	measureMemoryIn(t, place, dir, bound, works...)
	return place
}

func measureMemoryIn(t *testing.T, place, dir string, bound int, works ...string) {
	t.Helper()
	for _, work := range works {
		command := exec.Command(os.Args[0], "-test.run=^TestWorkerForTheMeasurementOfMemory$", "-test.v")
		command.Env = append(os.Environ(), memoryEnv+"="+work, "HOWDAH_TEST_PGDATA="+dir, "HOWDAH_TEST_PLACE="+place)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		_, after, found := strings.Cut(string(output), memoryMark)
		peak, err := strconv.Atoi(strings.Fields(after + " ?")[0])
		if !found || err != nil {
			t.Fatalf("no measurement in %s", output)
		}
		t.Logf("%s: peak %d MiB resident", work, peak>>10)
		if peak>>10 > bound {
			t.Errorf("%s: peak %d MiB resident, more than %d", work, peak>>10, bound)
		}
	}
}

func TestWorkerForTheMeasurementOfMemory(t *testing.T) {
	place := os.Getenv("HOWDAH_TEST_PLACE")
	store := onDisk{Store: mem.New(), dir: place}
	saved := filepath.Join(place, "manifest")
	if limit, err := strconv.ParseInt(os.Getenv(limitEnv), 10, 64); err == nil {
		debug.SetGCPercent(25) // as the worker of a Job
		debug.SetMemoryLimit(limit / 16 * 11)
	}
	switch os.Getenv(memoryEnv) {
	case "":
		t.Skip("only for the measurement")
	case "verify":
		must(t, store.Store.Put(t.Context(), layout.ManifestKey(testLineage, "b1"), readFile(t, saved), objstore.PutOptions{}))
		source(t, store, os.Getenv("HOWDAH_TEST_PGDATA")) // its WAL
		_, err := VerifyBackup(t.Context(), store, testLineage, "b1", VerifyOptions{Memory: 1 << 40, shortWAL: true})
		must(t, err)
	case "write":
		mustWrite(t, store, os.Getenv("HOWDAH_TEST_PGDATA"), "b1")
		object, err := store.Get(t.Context(), layout.ManifestKey(testLineage, "b1"), 1<<30)
		must(t, err)
		must(t, os.WriteFile(saved, object, 0o600))
	case "restore":
		manifest, err := decodeManifest(readFile(t, saved))
		must(t, err)
		limit, _ := strconv.ParseInt(os.Getenv(limitEnv), 10, 64)
		must(t, Restore(t.Context(), store, manifest, filepath.Join(place, "restored"), RestoreOptions{MemoryLimit: BuffersFor(limit, 96<<20)}))
	case "delta-restore":
		manifest, err := decodeManifest(readFile(t, saved))
		must(t, err)
		opts := RestoreOptions{Present: os.Getenv("HOWDAH_TEST_PGDATA")}
		must(t, Restore(t.Context(), store, manifest, filepath.Join(place, "restored-by-delta"), opts))
	}
	if n, is := strings.CutPrefix(os.Getenv(memoryEnv), "chain-"); is {
		chainWork(t, n, os.Getenv("HOWDAH_TEST_PGDATA"), place)
	}
	t.Log(memoryMark + peakMemory(t))
}

// peakMemory is the highest resident memory so far, in KiB.
func peakMemory(t testing.TB) string {
	file, err := os.Open("/proc/self/status")
	must(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			return strings.Fields(rest)[0]
		}
	}
	t.Fatal("no VmHWM")
	return ""
}
