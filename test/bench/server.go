package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/postgres"
)

// server is the PostgreSQL that is backed up.
type server struct {
	runner
	bin     string
	version postgres.Version
	data    string // PGDATA
	sockets string
	worker  string // this program, where the runner may execute it
	changes int    // that were made since the start
	task    string // file that says where WAL is archived; without it every segment counts as archived
	cmd     *exec.Cmd
	ended   chan struct{}
}

// parameters make a server that keeps its WAL for a while, and doesn't wait for the disk while data is made.
func (s *server) parameters() map[string]string {
	parameters := map[string]string{
		"listen_addresses": "", "unix_socket_directories": s.sockets, "fsync": "off", "shared_buffers": "256MB",
		"max_wal_size": "4GB", "wal_level": "replica", "archive_mode": "on", "archive_command": s.archiver(), "wal_keep_size": "4GB",
		"autovacuum": "off", "full_page_writes": "on", "checkpoint_timeout": "1h", "max_wal_senders": "10",
	}
	if s.version.Major >= 17 {
		parameters["summarize_wal"] = "on"
	}
	return parameters
}

// archiver is this program as archive_command: the agent of a database archives beside a backup, too.
func (s *server) archiver() string { return s.worker + " " + archiveVerb + " " + s.task + " %p" }

// collect has WAL copied into a folder from now on, until the task is removed.
func (s *server) collect(folder string) error {
	task, err := json.Marshal(job{Folder: folder})
	if err != nil {
		return err
	}
	return os.WriteFile(s.task, task, 0o644)
}

// findPrograms returns the folder of the newest PostgreSQL, or of PG_MAJOR.
func (r runner) findPrograms() (string, error) {
	folders, err := filepath.Glob(r.root + "/usr/lib/postgresql/" + setting("PG_MAJOR", "*") + "/bin")
	if err != nil || len(folders) == 0 {
		return "", errors.Join(errors.New("no PostgreSQL is installed: test/debian-packages does it"), err)
	}
	return strings.TrimPrefix(slices.Max(folders), r.root), nil
}

// startServer starts a server on the data set, which is made if a former run has not left it.
func (b *bench) startServer(ctx context.Context) (*server, error) {
	bin, err := b.runner.findPrograms()
	if err != nil {
		return nil, err
	}
	version, err := postgres.ProgramVersion(ctx, b.runner.output, filepath.Join(bin, "postgres"))
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(b.folder, fmt.Sprintf("data-%d-%g", version.Major, b.scale))
	sockets, err := os.MkdirTemp("", "howdah-bench")
	if err != nil {
		return nil, err
	}
	s := &server{runner: b.runner, bin: bin, version: version, data: filepath.Join(folder, "pgdata"), sockets: sockets}
	s.task = filepath.Join(sockets, "archive.json")
	if s.worker, err = copyOfThisProgram(sockets); err != nil {
		return nil, err
	}
	if err := os.Chown(sockets, s.uid, s.gid); err != nil {
		return nil, err
	}
	whole := filepath.Join(folder, "whole") // made last
	if _, err := os.Stat(whole); err == nil {
		return s, errors.Join(s.age(), s.start(ctx))
	}
	fmt.Printf("making the data set in %s\n", folder)
	if err := s.build(ctx, folder, b.scale); err != nil {
		s.stop()
		return nil, err
	}
	return s, errors.Join(s.age(), os.WriteFile(whole, nil, 0o600))
}

// age makes the databases look as if they had been there for a while: of one that may have been made since the last backup
// an incremental one copies everything.
func (s *server) age() error {
	files, err := filepath.Glob(filepath.Join(s.data, "base", "*", "PG_VERSION"))
	for _, file := range files {
		before := time.Now().AddDate(0, 0, -2)
		err = errors.Join(err, os.Chtimes(file, before, before))
	}
	return err
}

func (s *server) build(ctx context.Context, folder string, scale float64) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(folder), 0o755), s.folderFor(folder)); err != nil {
		return err
	}
	err := s.run(ctx, filepath.Join(s.bin, "initdb"), "--pgdata="+s.data, "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--data-checksums")
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	return s.fill(ctx, scale)
}

// start starts the server and returns when it accepts connections.
func (s *server) start(ctx context.Context) error {
	args := []string{"-D", s.data}
	for name, value := range s.parameters() {
		args = append(args, "-c", name+"="+value)
	}
	log, err := os.Create(filepath.Join(s.sockets, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = s.command(context.WithoutCancel(ctx), filepath.Join(s.bin, "postgres"), args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	return s.await(ctx)
}

func (s *server) await(ctx context.Context) error {
	for {
		conn, err := s.connect(ctx)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
			return fmt.Errorf("PostgreSQL has ended: see %s/log", s.sockets)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop shuts the server down cleanly, so that its data serves the next run as well.
func (s *server) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Signal(os.Interrupt) // one that has ended is what is wanted
	<-s.ended
	_ = os.RemoveAll(s.sockets) // a leftover in the folder for temporary files harms nobody
}

func (s *server) address() string {
	return fmt.Sprintf("host=%s user=postgres dbname=postgres sslmode=disable", s.sockets)
}

func (s *server) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, s.address())
}

// warm reads every file once, so that all tools find them in memory.
func (s *server) warm() error {
	return filepath.WalkDir(s.data, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		return readAll(path)
	})
}
