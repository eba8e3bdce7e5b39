// Package hostile reads buckets that mean harm, with what controllers, Jobs and the command line read with, each in a process of its
// own whose memory is measured: it must stay below the limit that the chart sets for a controller.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/pitr/bucket"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/hostiletest"
	"howdah.dev/howdah/test/testkit/subset"
)

// The variables by which a child knows what to read.
const (
	readerVariable = "HOSTILE_READER"
	bucketVariable = "HOSTILE_BUCKET"
	targetVariable = "HOSTILE_TARGET"
)

// reader is a way in which a bucket is read. It fails on a hostile one.
type reader func(ctx context.Context, store objstore.Store, target string) error

// readers, and what each reads of a backup.
var readers = map[string]struct {
	do    reader
	reads func(hostiletest.Buckets) []map[string]string
}{
	"inventory of the backup-controller": {inventoried, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers, b.WAL) }},
	"header for the restore-controller":  {headed, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers) }},
	"plan of the restore-controller":     {planned, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers, b.WAL) }},
	"retention of the backup-controller": {retained, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers, b.Claims) }},
	"backup-controller at its limits":    {atOnce, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers) }},
	"Job of a verification":              {verified, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers, b.Files, b.WAL) }},
	"Job of a restore":                   {restored, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers, b.Files) }},
	"Job of an incremental backup":       {backedUp, func(b hostiletest.Buckets) []map[string]string { return of(b.Headers, b.Files) }},
	"restore_command":                    {fetched, func(b hostiletest.Buckets) []map[string]string { return of(b.WAL) }},
	"archive_command":                    {archived, func(b hostiletest.Buckets) []map[string]string { return of(b.WAL) }},
	"inventory of a bucket as of a time": {inventoried, func(hostiletest.Buckets) []map[string]string { return nil }},
	"Job of a restore as of a time":      {restored, func(hostiletest.Buckets) []map[string]string { return nil }},
}

func of(some ...map[string]string) []map[string]string { return some }

func inventoried(ctx context.Context, store objstore.Store, _ string) error {
	lineages, err := inventory.NewReader().Read(ctx, store)
	if err == nil && len(lineages) == 1 && len(lineages[0].Damaged) == 1 {
		return errors.New("the backup is damaged")
	}
	if err == nil && len(lineages) == 1 && lineages[0].Unreadable != "" {
		return errors.New(lineages[0].Unreadable)
	}
	return err
}

func headed(ctx context.Context, store objstore.Store, _ string) error {
	_, err := backup.ReadHeader(ctx, store, hostiletest.Lineage, hostiletest.ID)
	return err
}

func planned(ctx context.Context, store objstore.Store, _ string) error {
	owner, err := layout.ReadLineage(ctx, store, hostiletest.Lineage)
	if err != nil {
		return err
	}
	found, err := bucket.Examine(ctx, store, []layout.Lineage{owner}, "", pitr.Target{})
	if err == nil && len(found.Candidates) == 1 && found.Candidates[0].Reach == nil {
		return errors.New("the backup is damaged")
	}
	return err
}

// retained removes another backup than that of the bucket, and all WAL that nobody needs.
func retained(ctx context.Context, store objstore.Store, _ string) error {
	_, err := backup.Delete(ctx, store, hostiletest.Lineage, "another")
	if err == nil {
		_, err = backup.ExpireWAL(ctx, store, hostiletest.Lineage, retention.NoWAL)
	}
	return err
}

// atOnce is all that a backup-controller does at a time.
func atOnce(ctx context.Context, store objstore.Store, _ string) error {
	errs := make([]error, 2*pruning)
	group := sync.WaitGroup{}
	for i := range errs {
		group.Go(func() {
			if i%2 == 0 {
				_, errs[i] = backup.Delete(ctx, store, hostiletest.Lineage, fmt.Sprint("another", i))
			} else {
				_, errs[i] = backup.ReadOutline(ctx, store, hostiletest.Lineage, hostiletest.ID)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// pruning is how many repositories are looked through at once, and as many backups.
const pruning = 6

func verified(ctx context.Context, store objstore.Store, _ string) error {
	verified, err := backup.VerifyBackup(ctx, store, hostiletest.Lineage, hostiletest.ID, backup.VerifyOptions{})
	if err == nil && verified.WrongObjects > 0 {
		return verified.Wrong[0]
	}
	return err
}

func restored(ctx context.Context, store objstore.Store, target string) error {
	m, err := backup.ReadManifest(ctx, store, hostiletest.Lineage, hostiletest.ID)
	if err != nil {
		return err
	}
	return backup.Restore(ctx, store, m, target, backup.RestoreOptions{})
}

// backedUp builds on the backup of the bucket, if it can: else it is a full one.
func backedUp(ctx context.Context, store objstore.Store, target string) error {
	if err := errors.Join(os.MkdirAll(filepath.Join(target, "global"), 0o700), os.WriteFile(filepath.Join(target, "PG_VERSION"), []byte("17\n"), 0o600),
		os.WriteFile(filepath.Join(target, "global/pg_control"), make([]byte, 8192), 0o600)); err != nil {
		return err
	}
	const begin, size = 9 << 24, 16 << 20
	if err := wal.New(store).Put(ctx, hostiletest.Lineage, postgres.SegmentOf(1, begin, size).Name(), []byte("x"), wal.Info{}); err != nil {
		return err
	}
	m, err := backup.Write(ctx, store, backup.Source{
		DataDir: target, Lineage: hostiletest.Lineage, SystemIdentifier: "7412345678901234567", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: size,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: begin + 40, Timeline: 1, Time: time.Now()}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: begin + 100, Time: time.Now(), BackupLabel: "x"}, nil
		},
	}, backup.Options{ID: fmt.Sprint("on-top-", time.Now().UnixNano()), Parent: hostiletest.ID})
	if err == nil && m.Type == backup.Full {
		return errors.New(m.Why)
	}
	return err
}

func fetched(ctx context.Context, store objstore.Store, _ string) error {
	content, _, err := wal.New(store).Get(ctx, hostiletest.Lineage, "00000002.history")
	if err == nil { // PostgreSQL does that
		_, err = postgres.ParseTimelineHistory(2, content)
	}
	return err
}

// archived archives a file that is there already, with other content.
func archived(ctx context.Context, store objstore.Store, _ string) error {
	return wal.New(store).Put(ctx, hostiletest.Lineage, "00000002.history", []byte("1\t0/2000100\tby hand\n"), wal.Info{Writer: "test"})
}

func TestMain(m *testing.M) {
	name := os.Getenv(readerVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	debug.SetGCPercent(25) // as controllers do
	err := read(readers[name].do)
	status, errStatus := os.ReadFile("/proc/self/status")
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if errStatus != nil || peak == nil {
		panic(fmt.Sprint("no peak of memory: ", errStatus))
	}
	fmt.Printf("peak=%s refused=%t error=%v\n", peak[1], err != nil, err)
	os.Exit(0)
}

// read is what the child does.
func read(do reader) error {
	place, patience := os.Getenv(bucketVariable), time.Minute
	if strings.HasPrefix(place, "http://") {
		patience = 5 * time.Second // whoever reads a bucket sets a limit to that
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := openBucket(ctx, place)
	if err != nil {
		return err
	}
	return do(ctx, store, os.Getenv(targetVariable))
}

func openBucket(ctx context.Context, place string) (objstore.Store, error) {
	if strings.HasPrefix(place, "http://") {
		var at *time.Time
		if strings.HasSuffix(os.Getenv(readerVariable), "as of a time") {
			yesterday := time.Now().Add(-24 * time.Hour)
			at = &yesterday
		}
		return open.With(ctx, objstore.Config{
			AsOf: at, ReadOnly: at != nil, Driver: objstore.DriverAWS, Endpoint: place, Insecure: true, Region: "us-east-1", Bucket: "bucket", PathStyle: true,
			Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
		}, retry.Policy{MaxElapsed: time.Nanosecond})
	}
	store, err := folder.Open(place)
	if err != nil {
		return nil, err
	}
	return open.Sealed(store, hostiletest.Keys(place)), nil
}

// refuses says that a reader takes nothing of a bucket.
func refuses(t *testing.T, reader, place string) {
	t.Helper()
	if out := run(t, reader, place); !strings.Contains(out, "refused=true") {
		t.Errorf("it was taken: %s", out)
	}
}

// run runs a reader in a process of its own, and returns what that says.
func run(t *testing.T, reader, place string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	above := t.TempDir()
	if !strings.HasPrefix(place, "http://") { // some readers write, and are not to be what another one refuses
		own := filepath.Join(t.TempDir(), "bucket")
		must(t, os.CopyFS(own, os.DirFS(place)))
		place = own
	}
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), readerVariable+"="+reader, bucketVariable+"="+place, targetVariable+"="+filepath.Join(above, "x", "pgdata"))
	must(t, os.Mkdir(filepath.Join(above, "x"), 0o700))
	out, err := child.CombinedOutput()
	found := regexp.MustCompile(`peak=(\d+) refused=(\w+)`).FindStringSubmatch(string(out))
	if err != nil || found == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s KiB", found[1])
	if peak, _ := strconv.Atoi(found[1]); peak > hostiletest.Limit(t) {
		t.Errorf("it took %d MiB of memory", peak>>10)
	}
	for _, outside := range []string{"outside", "x/outside"} {
		if _, err := os.Lstat(filepath.Join(above, outside)); err == nil {
			t.Errorf("%s was written outside of the target", outside)
		}
	}
	return string(out)
}

// What the others have in common with this one is not why they are refused.
func TestABucketThatMeansNoHarmIsRead(t *testing.T) {
	place := hostiletest.Harmless(t)
	for name := range readers {
		if strings.HasSuffix(name, "as of a time") {
			continue // a folder has no versions
		}
		if out := run(t, name, place); !strings.Contains(out, "refused=false") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestEveryReaderRefusesAHostileBucketInLittleMemory(t *testing.T) {
	subset.OneIn(t, 3)
	buckets := hostiletest.New(t)
	for name, r := range readers {
		for _, some := range r.reads(buckets) {
			for kind, place := range some {
				t.Run(kind+"/"+name, func(t *testing.T) { refuses(t, name, place) })
			}
		}
	}
}

func TestLargeBackupsTakeLittleMemoryOfAControllerAlsoManyAtOnce(t *testing.T) {
	place := hostiletest.Large(t, 200_000)
	for _, name := range []string{"plan of the restore-controller", "backup-controller at its limits"} {
		if out := run(t, name, place); !strings.Contains(out, "refused=false") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestEveryReaderRefusesAHostileServerInLittleMemory(t *testing.T) {
	for name, handler := range hostiletest.Servers() {
		for reader := range readers {
			t.Run(name+"/"+reader, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(handler)
				defer server.Close()
				refuses(t, reader, server.URL)
			})
		}
	}
}

func TestAServerWhoseCertificateNobodyKnowsIsNotTrusted(t *testing.T) {
	server := httptest.NewTLSServer(hostiletest.Servers()["a list of what was not asked for"])
	defer server.Close()
	for _, driver := range []string{objstore.DriverAWS, objstore.DriverMinIO} {
		for _, insecure := range []bool{false, true} { // that is of http://
			store, err := open.With(t.Context(), objstore.Config{
				Driver: driver, Endpoint: server.URL, Region: "us-east-1", Bucket: "bucket", PathStyle: true, Insecure: insecure,
				Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
			}, retry.Policy{MaxElapsed: time.Nanosecond})
			must(t, err)
			if _, err := store.Get(t.Context(), layout.MarkerKey, 1<<10); err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Errorf("%s, insecure %t: %v", driver, insecure, err)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
