package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/postgres"
)

// workerVerb makes this program the process that is measured. What to do comes by standard input.
const workerVerb = "worker"

// archiveVerb makes it an archive_command.
const archiveVerb = "archive-wal"

const lineage = "1-bench"

// job is what a worker does.
type job struct {
	Work        string
	ID          string // of the backup
	Parent      string // of an incremental one
	Compression backup.Compression
	Workers     int
	Store       objstore.Config
	Credentials objstore.Credentials // a Config doesn't carry them
	DataDir     string
	Server      string // to connect to
	Folder      string // with segments of WAL, or for them
	Segments    []string
	Target      string // of a restore
	Present     string // where it may take unchanged frames from
	InPlace     bool   // the target holds data
}

func work(ctx context.Context) error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	j.Store.Credentials = &j.Credentials
	store, err := open.Open(ctx, j.Store)
	if err != nil {
		return err
	}
	j.boundMemory()
	stop, err := profile()
	if err != nil {
		return err
	}
	defer stop()
	switch j.Work {
	case workFull:
		return j.backUp(ctx, store)
	case workPush:
		return j.push(ctx, store)
	case workRestore:
		return j.restore(ctx, store)
	}
	return fmt.Errorf("no such work: %q", j.Work)
}

// boundMemory collects garbage as the agent does at the same work.
func (j job) boundMemory() {
	switch j.Work {
	case workFull:
		debug.SetGCPercent(25)
		debug.SetMemoryLimit(176 << 20)
	case workRestore:
		debug.SetGCPercent(50)
		debug.SetMemoryLimit(208 << 20)
	}
}

// backUp does what the worker of a backup Job does.
func (j job) backUp(ctx context.Context, store objstore.Store) error {
	conn, err := pgx.Connect(ctx, j.Server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	s := &session{conn: conn, dataDir: j.DataDir}
	source, err := s.source(ctx)
	if err != nil {
		return err
	}
	manifest, err := backup.Write(ctx, store, source, backup.Options{
		ID: j.ID, Parent: j.Parent, Tool: "bench", Compression: j.Compression, Workers: j.Workers,
	})
	if err != nil {
		return err
	}
	if j.Parent != "" && manifest.Type != backup.Incremental {
		return fmt.Errorf("the backup is not incremental: %s", manifest.Why)
	}
	return json.NewEncoder(os.Stdout).Encode(manifest.Totals)
}

// session is the one in which a backup starts and stops.
type session struct {
	conn    *pgx.Conn
	dataDir string
	started backup.Started
}

// source describes the server as the engine wants it.
func (s *session) source(ctx context.Context) (backup.Source, error) {
	source := backup.Source{DataDir: s.dataDir, Start: s.start, Stop: s.stop, Lineage: lineage}
	var number int
	var size int64
	err := s.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, (SELECT system_identifier::text FROM pg_control_system()),
		current_setting('data_checksums') = 'on', (SELECT bytes_per_wal_segment::bigint FROM pg_control_init())`).
		Scan(&number, &source.SystemIdentifier, &source.DataChecksums, &size)
	version := postgres.VersionFromNum(number)
	source.PGVersion, source.PGMajor, source.WALSegmentSize = version.String(), version.Major, uint64(size)
	return source, err
}

func (s *session) start(ctx context.Context) (backup.Started, error) {
	var lsn string
	err := s.conn.QueryRow(ctx, `SELECT clock_timestamp(), lsn::text, timeline_id
		FROM pg_backup_start('bench', true) AS lsn, pg_control_checkpoint()`).Scan(&s.started.Time, &lsn, &s.started.Timeline)
	if err != nil {
		return s.started, err
	}
	s.started.LSN, err = postgres.ParseLSN(lsn)
	return s.started, err
}

func (s *session) stop(ctx context.Context) (backup.Stopped, error) {
	var stopped backup.Stopped
	var lsn string
	err := s.conn.QueryRow(ctx, "SELECT lsn::text, labelfile, spcmapfile, clock_timestamp() FROM pg_backup_stop(false)").
		Scan(&lsn, &stopped.BackupLabel, &stopped.TablespaceMap, &stopped.Time)
	if err != nil {
		return stopped, err
	}
	if stopped.LSN, err = postgres.ParseLSN(lsn); err != nil {
		return stopped, err
	}
	return stopped, nil
}

// archive is archive_command: it puts a segment into the store of the job in a file. Where there is none, nobody needs WAL.
func archive(ctx context.Context, task, path string) error {
	content, err := os.ReadFile(task)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(content, &j); err != nil {
		return err
	}
	if j.Folder != "" {
		return copyFile(path, filepath.Join(j.Folder, filepath.Base(path)))
	}
	j.Store.Credentials = &j.Credentials
	store, err := open.Open(ctx, j.Store)
	if err != nil {
		return err
	}
	if content, err = os.ReadFile(path); err != nil {
		return err
	}
	return wal.New(store).Put(ctx, lineage, filepath.Base(path), content, wal.Info{Writer: "bench"})
}

// profile notes where processor time and memory go in files whose names begin with PROFILE, for who makes the engine better.
func profile() (stop func(), err error) {
	path := os.Getenv("PROFILE")
	if path == "" {
		return func() {}, nil
	}
	processor, err := os.Create(path + ".cpu")
	if err != nil {
		return nil, err
	}
	memory, err := os.Create(path + ".mem")
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = pprof.Lookup("allocs").WriteTo(memory, 0) // who looks at it sees what is wrong
	}, pprof.StartCPUProfile(processor)
}
