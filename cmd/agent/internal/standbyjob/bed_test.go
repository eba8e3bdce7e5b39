//go:build postgres

package standbyjob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

const walProgram = "howdah.dev/howdah/cmd/wal"

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 {
		os.Exit(pgtest.AsPostgres(walProgram))
	}
	os.Exit(m.Run())
}

const realSize = 1 << 20

// bed is a database that archives into a store in memory, and is backed up there.
type bed struct {
	t        *testing.T
	server   *pgtest.Server
	archived string // folder of archive_command
	store    *mem.Store
	lineage  string
}

func newBed(t *testing.T, pg pgtest.Installation) *bed {
	b := &bed{t: t, archived: pgtest.Dir(t), store: mem.New()}
	b.server = pgtest.Start(t, pgtest.Options{Major: pg.Major, InitArgs: []string{"--wal-segsize=1"}, Params: map[string]string{
		"archive_mode": "on", "archive_command": "cp %p " + b.archived + "/.new && mv " + b.archived + "/.new " + b.archived + "/%f",
		"max_wal_size": "32MB", "autovacuum": "off", "max_connections": "20",
	}})
	b.lineage = layout.LineageName(b.system(), "g0")
	claim := layout.Lineage{
		Lineage: b.lineage, Writer: layout.Writer{UID: "source", Namespace: "demo", Name: "shop"},
		SystemIdentifier: b.system(), Generation: "g0", SegmentSize: realSize, PGMajor: pg.Major, Created: time.Now(),
	}
	if _, err := layout.Ensure(t.Context(), b.store, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := layout.Claim(t.Context(), b.store, claim); err != nil {
		t.Fatal(err)
	}
	b.server.SQL("CREATE TABLE rows (n int PRIMARY KEY, filler text)")
	return b
}

func (b *bed) system() string {
	return b.server.SQL("SELECT system_identifier::text FROM pg_control_system()")
}

// rows inserts rows with these numbers, each in a transaction of its own.
func (b *bed) rows(from, to int) {
	b.t.Helper()
	for n := from; n <= to; n++ {
		b.server.SQL(fmt.Sprintf("INSERT INTO rows VALUES (%d, repeat('x', 5000))", n))
	}
}

// archive switches segments, waits until PostgreSQL has archived all, and puts what is new into the store.
func (b *bed) archive() {
	b.t.Helper()
	last := b.server.SQL("SELECT pg_walfile_name(pg_switch_wal() - 1)")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(b.archived, last)); err == nil {
			break
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s was not archived: %s", last, b.server.Log())
		}
	}
	b.push()
}

// push puts all that is archived into the store.
func (b *bed) push() {
	b.t.Helper()
	names, err := os.ReadDir(b.archived)
	if err != nil {
		b.t.Fatal(err)
	}
	archive, tail := wal.New(b.store), postgres.WALTail{}
	for _, entry := range names {
		if entry.Name() == ".new" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(b.archived, entry.Name()))
		if err != nil {
			b.t.Fatal(err)
		}
		info := wal.Info{Writer: "test"}
		if scan, err := postgres.ScanWAL(content, tail); err == nil {
			info.EndLSN, tail = scan.End, scan.Tail
		}
		if err := archive.Put(b.t.Context(), b.lineage, entry.Name(), content, info); err != nil {
			b.t.Fatal(err)
		}
	}
}

// ship puts the open segment into the store as far as it is written.
func (b *bed) ship() {
	b.t.Helper()
	where := strings.Split(b.server.SQL("SELECT pg_walfile_name(pg_current_wal_flush_lsn()), pg_current_wal_flush_lsn()"), "|")
	segment, err := postgres.ParseSegment(where[0], realSize)
	if err != nil {
		b.t.Fatal(err)
	}
	end, err := postgres.ParseLSN(where[1])
	if err != nil {
		b.t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(b.server.DataDir, "pg_wal", where[0]))
	if err != nil {
		b.t.Fatal(err)
	}
	until := end.Sub(segment.Start())
	err = wal.New(b.store).PutOpen(b.t.Context(), b.lineage, segment, 0, until, wal.Info{Writer: "test", EndLSN: end}, func(w io.Writer) error {
		_, err := w.Write(content[:until])
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// backup takes one while something is done.
func (b *bed) backup(id string, meanwhile func()) {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.server.DSN())
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	start := func(ctx context.Context) (backup.Started, error) {
		at := time.Now()
		var lsn string
		var timeline int64
		err := conn.QueryRow(ctx, "SELECT pg_backup_start('test', true)::text, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint").Scan(&lsn, &timeline)
		if err != nil {
			return backup.Started{}, err
		}
		parsed, err := postgres.ParseLSN(lsn)
		return backup.Started{LSN: parsed, Timeline: uint32(timeline), Time: at}, err
	}
	stop := func(ctx context.Context) (backup.Stopped, error) {
		meanwhile()
		s := backup.Stopped{}
		var lsn string
		err := conn.QueryRow(ctx, "SELECT lsn::text, labelfile, spcmapfile FROM pg_backup_stop(false)").Scan(&lsn, &s.BackupLabel, &s.TablespaceMap)
		if err != nil {
			return s, err
		}
		s.Time = time.Now()
		b.archive()
		s.LSN, err = postgres.ParseLSN(lsn)
		return s, err
	}
	_, err = backup.Write(b.t.Context(), b.store, backup.Source{
		DataDir: b.server.DataDir, Start: start, Stop: stop, Lineage: b.lineage, SystemIdentifier: b.system(),
		PGVersion: b.server.Version.String(), PGMajor: b.server.Major, DataChecksums: true, WALSegmentSize: realSize,
	}, backup.Options{ID: id, WALTimeout: 2 * time.Minute})
	if err != nil {
		b.t.Fatal(err)
	}
}

// failOver has the source continue on this timeline, as another instance would.
func (b *bed) failOver(timeline int) {
	b.t.Helper()
	now, err := strconv.Atoi(b.server.SQL("SELECT timeline_id FROM pg_control_checkpoint()"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.server.Stop()
	b.touch("standby.signal")
	b.server.Start()
	for skipped := now + 1; skipped < timeline; skipped++ { // as the agent does
		b.touch("pg_wal/" + postgres.HistoryName(uint32(skipped)))
	}
	b.server.SQL("SELECT pg_promote()")
	b.rows(10000+timeline, 10000+timeline)
	b.archive()
}

func (b *bed) touch(name string) {
	b.t.Helper()
	path := filepath.Join(b.server.DataDir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
	pgtest.Own(b.t, path)
}

// contents are all objects of the store.
func (b *bed) contents() string {
	b.t.Helper()
	all := ""
	for info, err := range b.store.List(b.t.Context(), "", "") {
		if err != nil {
			b.t.Fatal(err)
		}
		all += fmt.Sprintf("%s %d %s\n", info.Key, info.Size, info.Modified)
	}
	return all
}

// standby is one on a volume, with what is wanted of it.
type standby struct {
	b       *bed
	volume  generation.Volume
	sockets string
	run     string
	store   objstore.Store
	task    agentapi.InitJob
	log     *bytes.Buffer
	killAt  string // what is logged as the server is killed, and the worker with it

	mu     sync.Mutex
	wanted agentapi.StandbyWanted
	report agentapi.StandbyReport
	cancel context.CancelFunc
	done   chan struct{}
	result initialize.Result
	err    error
}

func (b *bed) standby() *standby {
	return &standby{
		b: b, volume: generation.Volume(pgtest.Dir(b.t)), sockets: pgtest.Dir(b.t), run: pgtest.Dir(b.t), store: b.store, log: &bytes.Buffer{},
		wanted: agentapi.StandbyWanted{Cluster: "standby"},
		task: agentapi.InitJob{DataGeneration: "g1", MajorVersion: b.server.Major, Standby: &agentapi.StandbyJob{
			Cluster: "standby", MemoryLimit: 32 << 20, Lineage: b.lineage,
		}},
	}
}

// start begins an attempt.
func (s *standby) start() {
	ctx, cancel := context.WithCancel(s.b.t.Context())
	s.cancel, s.done = cancel, make(chan struct{})
	open := func(context.Context, objstore.Config) (objstore.Store, error) { return s.store, nil }
	worker := initialize.Worker{
		Volume: s.volume, Run: postgres.Exec, Now: time.Now, ExtensionsDir: filepath.Join(s.run, "extensions"),
		Reports: func(context.Context, agentapi.Object) (initialize.Reports, error) {
			return initialize.Reports{Progress: func(job.Progress) {}, Standby: s.exchange, Close: func() {}}, nil
		},
		Standby: New(Options{
			SocketDir: s.sockets, RunDir: s.run, WAL: pgtest.Beside(s.b.t, walProgram), OpenStore: open, OpenPatiently: open,
			Pause: 100 * time.Millisecond, Retry: 200 * time.Millisecond, Log: slog.New(s.killing(slog.NewTextHandler(&locked{w: s.log}, nil))),
		}),
	}
	go func() {
		defer close(s.done)
		s.result, s.err = worker.Init(ctx, s.task)
	}()
	s.b.t.Cleanup(func() {
		cancel()
		<-s.done
		if s.b.t.Failed() || os.Getenv("HOWDAH_TEST_LOG") != "" {
			s.b.t.Logf("%s", s.log)
		}
	})
}

type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// killing kills all of an attempt when something is logged.
func (s *standby) killing(handler slog.Handler) slog.Handler { return &killer{handler, s} }

type killer struct {
	slog.Handler
	s *standby
}

func (k *killer) Handle(ctx context.Context, record slog.Record) error {
	k.s.mu.Lock()
	at, cancel := k.s.killAt, k.s.cancel
	if at != "" && strings.Contains(record.Message, at) {
		k.s.killAt = ""
		k.s.mu.Unlock()
		cancel()
		k.s.killServer()
		return nil
	}
	k.s.mu.Unlock()
	return k.Handler.Handle(ctx, record)
}

func (s *standby) killServer() {
	content, err := os.ReadFile(filepath.Join(s.volume.PGData("g1"), "postmaster.pid"))
	if err != nil {
		return
	}
	if pid, err := postgres.ParsePostmasterPID(content); err == nil {
		_ = syscall.Kill(pid.PID, syscall.SIGKILL)
	}
}

func (s *standby) exchange(_ context.Context, report agentapi.StandbyReport) (agentapi.StandbyWanted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = report
	return s.wanted, nil
}

func (s *standby) want(how agentapi.StandbyPromotion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted.Promote = how
}

func (s *standby) said() agentapi.StandbyReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report
}

// await waits for something, for as long as the attempt runs.
func (s *standby) await(what string, holds func() bool) {
	s.b.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		select {
		case <-s.done:
			if !holds() {
				s.b.t.Fatalf("%s: it ended with %v", what, s.err)
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			s.b.t.Fatalf("%s: it says %+v", what, s.said())
		}
	}
}

// ended waits for the end of the attempt.
func (s *standby) ended() error {
	s.b.t.Helper()
	select {
	case <-s.done:
		return s.err
	case <-time.After(3 * time.Minute):
		s.b.t.Fatalf("it doesn't end, and says %+v", s.said())
	}
	return nil
}

// has is how many rows a reader in the pod sees.
func (s *standby) has() (rows int) {
	err := (local.Server{SocketDir: s.sockets, Port: recovery.Port}).With(s.b.t.Context(), "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(s.b.t.Context(), "SELECT count(*) FROM public.rows WHERE n < 10000").Scan(&rows)
	})
	if err != nil {
		return -1
	}
	return rows
}

// awaitRows waits until a reader sees that many.
func (s *standby) awaitRows(n int) {
	s.b.t.Helper()
	s.await(fmt.Sprintf("it has %d rows", n), func() bool { return s.has() == n })
}

// promoted starts a server on the data as the agent would, and says what it has.
func (s *standby) promoted() (rows, timeline int) {
	t := s.b.t
	t.Helper()
	if err := s.ended(); err != nil {
		t.Fatal(err)
	}
	g, err := s.volume.Read("g1")
	if err != nil || g.Origin != generation.Standby || !strings.HasPrefix(g.From, s.b.lineage+"/") || g.SystemIdentifier != s.result.SystemIdentifier {
		t.Fatalf("%+v, %v", g, err)
	}
	pgdata, sockets := s.volume.PGData("g1"), pgtest.Dir(t)
	for _, name := range []string{"standby.signal", "recovery.signal", "backup_label"} {
		if _, err := os.Lstat(filepath.Join(pgdata, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	server, err := postmaster.Start(postmaster.Spec{
		BinDir: s.b.server.BinDir, PGData: pgdata, Log: slog.New(slog.DiscardHandler),
		Args: []string{"-c", "listen_addresses=", "-c", "unix_socket_directories=" + sockets, "-c", "archive_command=true", "-c", "port=5432", "-c", "ssl=off"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	if !recovery.AwaitPromotion(t.Context(), server, pgdata) {
		t.Fatalf("the promoted data doesn't start: %s", server.Complaint())
	}
	err = (local.Server{SocketDir: sockets, Port: 5432}).With(t.Context(), "postgres", func(conn *pgx.Conn) error {
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM public.rows WHERE n < 10000").Scan(&rows); err != nil {
			return err
		}
		_, err := conn.Exec(t.Context(), "INSERT INTO public.rows VALUES (99999, 'written here') ON CONFLICT DO NOTHING")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	control, err := postgres.ReadControlData(t.Context(), postgres.Exec, s.b.server.BinDir, pgdata)
	if err != nil {
		t.Fatal(err)
	}
	return rows, int(control.Timeline)
}
