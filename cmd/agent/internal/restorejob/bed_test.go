//go:build postgres

package restorejob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/archivetest"
	"howdah.dev/howdah/test/testkit/pgtest"
)

const (
	walVariable   = "HOWDAH_TEST_WAL"
	smallVariable = "HOWDAH_TEST_SMALL"
)

// TestMain builds the program of restore_command, and runs the tests as the user of PostgreSQL, which refuses to
// run as root.
func TestMain(m *testing.M) {
	if os.Getenv(walVariable) != "" {
		os.Exit(m.Run())
	}
	code, err := runAsPostgres()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAsPostgres() (int, error) {
	dir, err := os.MkdirTemp("", "recover")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	wal := filepath.Join(dir, "wal")
	if out, err := exec.Command("go", "build", "-o", wal, "howdah.dev/howdah/cmd/wal").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build restore_command: %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return 1, err
	}
	if err := os.WriteFile(filepath.Join(dir, "test"), program, 0o755); err != nil {
		return 1, err
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return 1, err
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-test.testlogfile") })
	cmd := exec.Command(filepath.Join(dir, "test"), args...)
	cmd.Env = append(os.Environ(), walVariable+"="+wal, "TMPDIR="+dir, "HOME="+dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	if os.Geteuid() == 0 {
		small, err := mountSmall(dir)
		if err != nil {
			return 1, err
		}
		defer unmountSmall(small)
		cmd.Env = append(cmd.Env, smallVariable+"="+small)
		who, err := user.Lookup("postgres")
		if err != nil {
			return 1, err
		}
		uid, _ := strconv.Atoi(who.Uid)
		gid, _ := strconv.Atoi(who.Gid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	err = cmd.Run()
	if exit := cmd.ProcessState; exit != nil {
		return exit.ExitCode(), nil
	}
	return 1, err
}

// smallFileSystems are the tests that fill a file system up. Each has one of its own: they run side by side.
var smallFileSystems = []string{"TestAFullVolumeIsNamed", "TestThePreviousDataBecomesTheRestoredData"}

// smallFileSystem returns the folder of the small file system that is this test's alone.
func smallFileSystem(t *testing.T) string {
	t.Helper()
	small := os.Getenv(smallVariable)
	if small == "" {
		t.Skip("a small file system takes root")
	}
	if !slices.Contains(smallFileSystems, t.Name()) {
		t.Fatalf("%s has no small file system: add it to smallFileSystems", t.Name())
	}
	return filepath.Join(small, t.Name())
}

// mountSmall mounts file systems of 224 MiB that this thread and what it starts see, and nobody else.
func mountSmall(dir string) (string, error) {
	runtime.LockOSThread() // for good: it has mounts of its own now
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return "", fmt.Errorf("unshare mounts: %w", err)
	}
	// In the root of an image, which is no mount, mounts are this process's own already.
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil && !errors.Is(err, unix.EINVAL) {
		return "", fmt.Errorf("make mounts private: %w", err)
	}
	small := filepath.Join(dir, "small")
	for _, test := range smallFileSystems {
		mount := filepath.Join(small, test)
		if err := os.MkdirAll(mount, 0o755); err != nil {
			return "", err
		}
		if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=224m,mode=0777"); err != nil {
			return "", fmt.Errorf("mount the file system of %s: %w", test, err)
		}
	}
	return small, nil
}

// unmountSmall lets the folder be removed.
func unmountSmall(small string) {
	for _, test := range smallFileSystems {
		if err := unix.Unmount(filepath.Join(small, test), unix.MNT_DETACH); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

const segSize = archivetest.SegmentSize

// bed is a database that was backed up and archived into a store in memory.
type bed struct {
	t        *testing.T
	server   *pgtest.Server
	conn     *pgx.Conn
	archived string // folder of archive_command
	store    *mem.Store
	lineage  string
	manifest *backup.Manifest
	last     string // segment
	down     bool   // the server was stopped
}

func newBed(t *testing.T, pg pgtest.Installation) *bed {
	b := &bed{t: t, archived: pgtest.Dir(t), store: mem.New()}
	params := archivetest.Parameters(b.archived)
	params["wal_keep_size"], params["track_commit_timestamp"] = "0", "on"
	b.server = pgtest.Start(t, pgtest.Options{Major: pg.Major, InitArgs: []string{archivetest.InitArg, "--data-checksums"}, Params: params})
	b.connect()
	b.lineage = archivetest.New(t, b.server, b.archived, b.store, "uid").Lineage
	return b
}

// source is the archive as it is now.
func (b *bed) source() *archivetest.Archive {
	return &archivetest.Archive{T: b.t, Server: b.server, Folder: b.archived, Store: b.store, Lineage: b.lineage}
}

func (b *bed) connect() {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.server.DSN())
	b.must(err)
	b.t.Cleanup(func() { conn.Close(context.Background()) })
	b.conn = conn
}

func (b *bed) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.conn.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) value(sql string) (text string) {
	b.t.Helper()
	if err := b.conn.QueryRow(b.t.Context(), sql).Scan(&text); err != nil {
		b.t.Fatal(err)
	}
	return text
}

// rows inserts rows with these numbers, each in a transaction of its own.
func (b *bed) rows(from, to int) {
	b.t.Helper()
	b.exec("CREATE TABLE IF NOT EXISTS rows (n int PRIMARY KEY, filler text)")
	for n := from; n <= to; n++ {
		b.exec("INSERT INTO rows VALUES ($1, repeat('x', 5000))", n)
	}
}

// archive switches segments, waits until PostgreSQL has archived all, and puts them into the store.
func (b *bed) archive() {
	b.t.Helper()
	source := b.source()
	source.Switch()
	b.last = source.Last
}

// backup takes one while rows are written.
func (b *bed) backup() {
	b.t.Helper()
	b.manifest = b.backupAs("first", func() { b.rows(101, 120) })
}

// backupAs takes a backup while something is done.
func (b *bed) backupAs(id string, meanwhile func()) *backup.Manifest {
	b.t.Helper()
	source := b.source()
	manifest := source.Backup(id, meanwhile)
	b.last = source.Last
	return manifest
}

// task is a restore job for a target.
func (b *bed) task(target agentapi.RestoreTarget) agentapi.RestoreJob {
	return agentapi.RestoreJob{
		Lineage: b.lineage, BackupID: "first", DataGeneration: "g1", MajorVersion: b.server.Major, Target: target,
		Timeline: 1, LastWAL: b.last, MemoryLimit: 32 << 20,
	}
}

type outcome struct {
	worker   Worker
	result   agentapi.RestoreResult
	err      error
	progress []job.Progress
	log      *bytes.Buffer
}

// restore runs the worker on an empty volume.
func (b *bed) restore(store objstore.Store, task agentapi.RestoreJob) *outcome {
	b.t.Helper()
	return b.restoreOn(generation.Volume(pgtest.Dir(b.t)), store, task)
}

func (b *bed) restoreOn(volume generation.Volume, store objstore.Store, task agentapi.RestoreJob) *outcome {
	b.t.Helper()
	o := &outcome{log: &bytes.Buffer{}}
	o.worker = Worker{
		Volume: volume, SocketDir: pgtest.Dir(b.t), RunDir: pgtest.Dir(b.t),
		WAL: os.Getenv(walVariable), Run: postgres.Exec, Now: time.Now,
		OpenStore: func(context.Context, objstore.Config) (objstore.Store, error) { return store, nil },
		Report:    func(p job.Progress) { o.progress = append(o.progress, p) },
		Log:       slog.New(slog.NewTextHandler(o.log, nil)),
	}
	o.result, o.err = o.worker.Restore(b.t.Context(), task)
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("%s", o.log)
		}
	})
	return o
}

// rowsIn says which rows the restored data has.
func (b *bed) rowsIn(o *outcome) (first, last, count int) {
	b.t.Helper()
	b.ask(o, func(conn *pgx.Conn) error {
		return conn.QueryRow(b.t.Context(), "SELECT min(n), max(n), count(*) FROM public.rows").Scan(&first, &last, &count)
	})
	return first, last, count
}

// ask starts the restored data as the agent would, and asks it.
func (b *bed) ask(o *outcome, do func(*pgx.Conn) error) {
	b.t.Helper()
	if o.err != nil {
		b.t.Fatal(o.err)
	}
	sockets, pgdata := pgtest.Dir(b.t), o.worker.Volume.PGData("g1")
	server, err := postmaster.Start(postmaster.Spec{
		BinDir: b.server.BinDir, PGData: pgdata, Log: slog.New(slog.DiscardHandler),
		Args: []string{"-c", "listen_addresses=", "-c", "unix_socket_directories=" + sockets, "-c", "archive_command=true", "-c", "port=5432"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	if !recovery.AwaitPromotion(b.t.Context(), server, pgdata) {
		b.t.Fatalf("the restored data doesn't start: %s", server.Complaint())
	}
	if err := (local.Server{SocketDir: sockets, Port: 5432}).With(b.t.Context(), "postgres", do); err != nil {
		b.t.Fatal(err)
	}
}
