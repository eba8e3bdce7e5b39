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
	"os/exec"
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
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/archivetest"
	"howdah.dev/howdah/test/testkit/pgtest"
)

const walProgram = "howdah.dev/howdah/cmd/wal"

func TestMain(m *testing.M) {
	if os.Geteuid() == 0 {
		os.Exit(pgtest.AsPostgres(walProgram))
	}
	os.Exit(m.Run())
}

const realSize = archivetest.SegmentSize

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
	params := archivetest.Parameters(b.archived)
	params["max_connections"] = "20"
	b.server = pgtest.Start(t, pgtest.Options{Major: pg.Major, InitArgs: []string{archivetest.InitArg}, Params: params})
	b.lineage = archivetest.New(t, b.server, b.archived, b.store, "source").Lineage
	b.server.SQL("CREATE TABLE rows (n int PRIMARY KEY, filler text)")
	return b
}

// source is the archive as it is now.
func (b *bed) source() *archivetest.Archive {
	return &archivetest.Archive{T: b.t, Server: b.server, Folder: b.archived, Store: b.store, Lineage: b.lineage}
}

// archive switches segments, and puts what is new into the store.
func (b *bed) archive() {
	b.t.Helper()
	b.source().Switch()
}

// backup takes one while something is done.
func (b *bed) backup(id string, meanwhile func()) {
	b.t.Helper()
	b.source().Backup(id, meanwhile)
}

// rows inserts rows with these numbers, each in a transaction of its own.
func (b *bed) rows(from, to int) {
	b.t.Helper()
	var statements strings.Builder // over one connection: on a busy machine, each one takes its time
	for n := from; n <= to; n++ {
		fmt.Fprintf(&statements, "BEGIN; INSERT INTO rows VALUES (%d, repeat('x', 5000)); COMMIT;", n)
	}
	b.server.SQL(statements.String())
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

// failOver has the source continue on this timeline, as another instance would.
func (b *bed) failOver(timeline int) {
	b.t.Helper()
	b.server.Stop()
	b.takeOver(timeline)
}

// takeOver begins this timeline with the data of the source, which is stopped.
func (b *bed) takeOver(timeline int) {
	b.t.Helper()
	b.touch("standby.signal")
	b.server.Start()
	now, err := strconv.Atoi(b.server.SQL("SELECT timeline_id FROM pg_control_checkpoint()"))
	if err != nil {
		b.t.Fatal(err)
	}
	for skipped := now + 1; skipped < timeline; skipped++ { // as the agent does
		b.touch("pg_wal/" + postgres.HistoryName(uint32(skipped)))
	}
	b.server.SQL("SELECT pg_promote()")
	b.rows(10000+timeline, 10000+timeline)
	b.archive()
}

// keep keeps the source's data as it is, which a replica without later WAL has, too.
func (b *bed) keep() (kept string) {
	b.t.Helper()
	kept = filepath.Join(pgtest.Dir(b.t), "kept")
	b.server.Stop()
	b.copy(b.server.DataDir, kept)
	b.server.Start()
	return kept
}

// failOverTo has the source continue on another timeline with data that was kept: what was archived since is on a branch that nobody follows.
func (b *bed) failOverTo(kept string, timeline int) {
	b.t.Helper()
	b.server.Stop()
	if err := os.RemoveAll(b.server.DataDir); err != nil {
		b.t.Fatal(err)
	}
	b.copy(kept, b.server.DataDir)
	b.takeOver(timeline)
}

func (b *bed) copy(from, to string) {
	b.t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
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
	plan   agentapi.StandbyReinit // what was announced last
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
			Pause: 100 * time.Millisecond, Retry: 200 * time.Millisecond, Notice: 500 * time.Millisecond, Log: slog.New(s.killing(slog.NewTextHandler(&locked{w: s.log}, nil))),
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

// dieAt has the next attempt be killed when something is logged.
func (s *standby) dieAt(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killAt = message
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
	for _, copy := range []string{"g1", copies{s.volume, "g1"}.next()} {
		content, err := os.ReadFile(filepath.Join(s.volume.PGData(copy), "postmaster.pid"))
		if err != nil {
			continue
		}
		if pid, err := postgres.ParsePostmasterPID(content); err == nil {
			_ = syscall.Kill(pid.PID, syscall.SIGKILL)
		}
	}
}

// copies are the folders on its volume.
func (s *standby) copies() string {
	s.b.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(s.volume.Dir("g1")))
	if err != nil {
		s.b.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

func (s *standby) exchange(_ context.Context, report agentapi.StandbyReport) (agentapi.StandbyWanted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report = report; report.Reinit != nil && report.Reinit.Stage == agentapi.StandbyReinitPlanned {
		s.plan = *report.Reinit
	}
	return s.wanted, nil
}

func (s *standby) want(how agentapi.StandbyPromotion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted.Promote = how
}

// mayReinit has it replace a copy that can't continue, or not.
func (s *standby) mayReinit(policy agentapi.StandbyReinitPolicy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted.Reinit = policy
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

// awaitProblem waits until the first problem is that.
func (s *standby) awaitProblem(reason string) {
	s.b.t.Helper()
	s.await("it says "+reason, func() bool {
		r := s.said()
		return len(r.Problems) > 0 && r.Problems[0].Reason == reason
	})
}

// kill ends the attempt, with its server.
func (s *standby) kill() {
	s.b.t.Helper()
	s.killServer()
	s.cancel()
	if s.ended() == nil {
		s.b.t.Fatal("it was promoted")
	}
}

// do runs a statement in the pod.
func (s *standby) do(sql string) {
	s.b.t.Helper()
	err := (local.Server{SocketDir: s.sockets, Port: recovery.Port}).With(s.b.t.Context(), "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(s.b.t.Context(), sql)
		return err
	})
	if err != nil {
		s.b.t.Fatal(err)
	}
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
