package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/pkg/postgres"
)

// Options say what server a test wants. The zero value is the newest installed major with checksums,
// on a socket only, where everybody local is trusted.
type Options struct {
	Major    int               // 0: the newest that is installed
	InitArgs []string          // for initdb
	Params   map[string]string // for postgresql.conf, unquoted
	HBA      string            // instead of "local all all trust"
}

// Server is one data directory and, between Start and Stop, the server on it.
type Server struct {
	Installation
	DataDir   string
	SocketDir string
	LogFile   string // what the server wrote to standard error

	t    testing.TB
	cmd  *exec.Cmd
	exit chan struct{} // closed when the server has ended
}

// Start makes a data directory and starts a server on it. It ends with the test, and with the test
// process if that is killed.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s := Init(t, opts)
	s.Start()
	return s
}

// Init makes a data directory without a server.
func Init(t testing.TB, opts Options) *Server {
	t.Helper()
	dir := Dir(t)
	s := &Server{
		t: t, Installation: choose(t, opts.Major),
		DataDir: filepath.Join(dir, "pgdata"), SocketDir: dir, LogFile: filepath.Join(dir, "log"),
	}
	args := []string{"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--data-checksums"}
	s.initdb(append(args, opts.InitArgs...))
	s.Configure(opts.Params)
	if opts.HBA != "" {
		s.write("pg_hba.conf", opts.HBA)
	}
	return s
}

func choose(t testing.TB, major int) Installation {
	t.Helper()
	all := Installed(t)
	if major == 0 {
		return all[len(all)-1]
	}
	for _, pg := range all {
		if pg.Major == major {
			return pg
		}
	}
	t.Fatalf("PostgreSQL %d is not installed", major)
	return Installation{}
}

// Configure appends parameters to postgresql.conf; later ones win. The running server is not told.
func (s *Server) Configure(params map[string]string) {
	s.t.Helper()
	all := map[string]string{
		"listen_addresses": "", "unix_socket_directories": s.SocketDir, "fsync": "off",
		"shared_buffers": "32MB", "max_wal_size": "256MB",
	}
	maps.Copy(all, params)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&lines, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	old, err := os.ReadFile(filepath.Join(s.DataDir, "postgresql.conf"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("postgresql.conf", string(old)+lines.String())
}

func (s *Server) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.DataDir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	Own(s.t, path)
}

// Start starts the server and waits until it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	s.launch()
	s.t.Cleanup(s.Kill)
	s.await("accept connections", func() bool {
		content, err := os.ReadFile(filepath.Join(s.DataDir, "postmaster.pid"))
		if err != nil {
			return false
		}
		pid, err := postgres.ParsePostmasterPID(content)
		return err == nil && pid.PID == s.cmd.Process.Pid && pid.Accepting()
	})
}

// launch starts postgres from a thread that lives as long as it does: the kernel's parent-death signal,
// which ends the server with a killed test, is bound to that thread.
func (s *Server) launch() {
	s.t.Helper()
	log, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	// A context of its own: the test's would kill the server before the cleanups that still use it.
	cmd := s.Command(context.Background(), s.t, "postgres", "-D", s.DataDir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT

	exit, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exit)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exit = cmd, exit
}

// await polls until the condition holds; the server's end or 60 s fail the test with its log.
func (s *Server) await(what string, holds func() bool) {
	s.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-s.exit:
			s.t.Fatalf("PostgreSQL did not %s: it ended: %s", what, s.Log())
		case <-deadline:
			s.t.Fatalf("PostgreSQL did not %s within 60 s: %s", what, s.Log())
		}
	}
}

// PID is the process id of the postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop shuts the server down cleanly (fast) and waits for its end.
func (s *Server) Stop() { s.signal(syscall.SIGINT) }

// Kill ends the server without a shutdown, as a crash of the machine would; a stopped one stays so.
func (s *Server) Kill() { s.signal(syscall.SIGQUIT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	select {
	case <-s.exit:
		return
	default:
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Logf("signal to PostgreSQL: %v", err) // it may have ended just now
	}
	select {
	case <-s.exit:
	case <-time.After(60 * time.Second):
		_ = s.cmd.Process.Kill()
		s.t.Errorf("PostgreSQL did not end within 60 s of %v: %s", sig, s.Log())
	}
}

// Log is what the server wrote so far.
func (s *Server) Log() string {
	s.t.Helper()
	content, err := os.ReadFile(s.LogFile)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(content)
}

// DSN connects as the superuser over the socket.
func (s *Server) DSN() string {
	return "host=" + s.SocketDir + " user=postgres dbname=postgres"
}

// SQL runs statements as the superuser and returns rows as text, one a line, columns parted by "|".
func (s *Server) SQL(statements string) string {
	s.t.Helper()
	return s.SQLIn("postgres", statements)
}

// SQLIn is SQL in another database. Each call has a connection of its own, so that nothing of a session is left.
func (s *Server) SQLIn(database, statements string) string {
	s.t.Helper()
	conn, err := pgconn.Connect(s.t.Context(), "host="+s.SocketDir+" user=postgres dbname="+database)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	results, err := conn.Exec(s.t.Context(), statements).ReadAll()
	if err != nil {
		s.t.Fatalf("%s: %v", statements, err)
	}
	var lines []string
	for _, result := range results {
		for _, row := range result.Rows {
			lines = append(lines, string(bytes.Join(row, []byte("|"))))
		}
	}
	return strings.Join(lines, "\n")
}
