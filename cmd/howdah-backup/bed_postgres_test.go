//go:build postgres

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/howdah-backup/internal/sample"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// asCommand makes this test program the command: restore_command names the program that has restored, which is this one.
const asCommand = "HOWDAH_TEST_COMMAND"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asCommand) != "":
		main()
	case os.Geteuid() == 0: // PostgreSQL refuses root
		os.Exit(pgtest.AsPostgres())
	}
	os.Exit(m.Run())
}

// bed is a database that was backed up and archived into a folder.
type bed struct {
	*testBucket
	server   *pgtest.Server
	conn     *pgx.Conn
	archived string // folder of archive_command
	lineage  string
}

func newBed(t *testing.T, pg pgtest.Installation) *bed {
	t.Setenv(asCommand, "yes")
	b := &bed{testBucket: newBucket(t), archived: pgtest.Dir(t)}
	b.server = pgtest.Start(t, pgtest.Options{Major: pg.Major, InitArgs: []string{"--wal-segsize=1"}, Params: map[string]string{
		"archive_mode": "on", "archive_command": b.archiveCommand(),
		"max_wal_size": "32MB", "autovacuum": "off", "max_connections": "150",
	}})
	var err error
	b.conn, err = pgx.Connect(t.Context(), b.server.DSN())
	must(t, err)
	t.Cleanup(func() { b.conn.Close(context.Background()) })
	b.lineage = b.value("SELECT system_identifier::text FROM pg_control_system()") + "-g0"
	sample.Claim(t, b.store, b.lineage, "shop")
	return b
}

func (b *bed) at(t *testing.T) *bed {
	sub, bucket := *b, *b.testBucket
	bucket.t, sub.testBucket = t, &bucket
	return &sub
}

func (b *bed) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.conn.Exec(b.t.Context(), sql, args...)
	must(b.t, err)
}

func (b *bed) value(sql string) (text string) {
	b.t.Helper()
	must(b.t, b.conn.QueryRow(b.t.Context(), sql).Scan(&text))
	return text
}

// rows inserts rows with these numbers into two tables, one in a tablespace, each in a transaction of its own.
func (b *bed) rows(from, to int) {
	b.t.Helper()
	for n := from; n <= to; n++ {
		b.exec("WITH r AS (INSERT INTO \"B\u00fccher und mehr\" VALUES ($1::int, repeat(md5($1::int::text), 100)) RETURNING n) INSERT INTO aside SELECT n FROM r", n)
	}
}

// begin makes what the backup has to bring back: files of odd names, a tablespace, an unlogged table, a hole in a file.
func (b *bed) begin() {
	place := filepath.Join(b.t.TempDir(), "schneller Datentr\u00e4ger")
	must(b.t, os.MkdirAll(place, 0o700))
	b.exec("CREATE TABLESPACE fast LOCATION '" + place + "'")
	b.exec("CREATE TABLE \"B\u00fccher und mehr\" (n int PRIMARY KEY, filler text)")
	b.exec("CREATE TABLE aside (n int PRIMARY KEY) TABLESPACE fast")
	b.exec("CREATE TABLE bulk AS SELECT g, repeat(md5(g::text), 20) AS filler FROM generate_series(1, 8000) g")
	b.exec("CREATE UNLOGGED TABLE fleeting AS SELECT 1 AS n")
	must(b.t, os.MkdirAll(filepath.Join(b.server.DataDir, "conf d"), 0o700))
	must(b.t, os.WriteFile(filepath.Join(b.server.DataDir, "conf d", "gr\u00f6\u00dfe \u6570\u636e.conf"), []byte("# x\n"), 0o600))
	must(b.t, os.WriteFile(filepath.Join(b.server.DataDir, "latin\xe4.conf"), []byte("# x\n"), 0o600))
	must(b.t, os.WriteFile(filepath.Join(b.server.DataDir, "empty"), nil, 0o600))
	must(b.t, os.Truncate(filepath.Join(b.server.DataDir, "empty"), 3<<20))
	b.exec("CHECKPOINT")
}

// archive switches segments, waits until PostgreSQL has archived all, and puts them into the bucket.
func (b *bed) archive() {
	b.t.Helper()
	last := filepath.Join(b.archived, b.value("SELECT pg_walfile_name(pg_switch_wal() - 1)"))
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-look.C {
		if _, err := os.Stat(last); err == nil {
			break
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s was not archived: %s", last, b.server.Log())
		}
	}
	names, err := os.ReadDir(b.archived)
	must(b.t, err)
	archive, tail := wal.New(b.store), postgres.WALTail{}
	for _, entry := range names {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(b.archived, entry.Name()))
		must(b.t, err)
		info := wal.Info{Writer: "test"}
		if scan, err := postgres.ScanWAL(content, tail); err == nil {
			info.EndLSN, tail = scan.End, scan.Tail
			if scan.Commits > 0 {
				info.LastCommit = &scan.Last.Time
			}
			for _, point := range scan.RestorePoints {
				info.RestorePoints = append(info.RestorePoints, wal.RestorePoint{Name: point.Name, LSN: point.LSN, Time: point.Time})
			}
		}
		must(b.t, archive.Put(b.t.Context(), b.lineage, entry.Name(), content, info))
	}
}

// backup takes one, on top of another if that is named, while the rows with these numbers are written.
func (b *bed) backup(id, parent string, from, to int) {
	b.t.Helper()
	start := func(ctx context.Context) (backup.Started, error) {
		at, lsn := time.Now(), ""
		err := b.conn.QueryRow(ctx, "SELECT pg_backup_start('test', true)::text").Scan(&lsn)
		if err != nil {
			return backup.Started{}, err
		}
		parsed, err := postgres.ParseLSN(lsn)
		return backup.Started{LSN: parsed, Timeline: 1, Time: at}, err
	}
	stop := func(ctx context.Context) (s backup.Stopped, err error) {
		b.rows(from, to)
		lsn := ""
		err = b.conn.QueryRow(ctx, "SELECT lsn::text, labelfile, spcmapfile FROM pg_backup_stop(false)").Scan(&lsn, &s.BackupLabel, &s.TablespaceMap)
		if err != nil {
			return s, err
		}
		s.Time = time.Now()
		b.archive()
		s.LSN, err = postgres.ParseLSN(lsn)
		return s, err
	}
	m, err := backup.Write(b.t.Context(), b.store, backup.Source{
		DataDir: b.server.DataDir, Start: start, Stop: stop, Lineage: b.lineage, SystemIdentifier: strings.TrimSuffix(b.lineage, "-g0"),
		PGVersion: b.server.Version.String(), PGMajor: b.server.Major, DataChecksums: true, WALSegmentSize: postgres.MinSegSize,
		Cluster: backup.Cluster{Namespace: "demo", Name: "shop", UID: "uid-shop"},
	}, backup.Options{ID: id, Parent: parent, WALTimeout: 2 * time.Minute})
	must(b.t, err)
	if m.Parent != parent {
		b.t.Errorf("backup %s is a full one: %s", id, m.Why)
	}
}

// verify has PostgreSQL's own program check a restored folder, and its WAL.
func (b *bed) verify(dir string) error {
	var out bytes.Buffer
	cmd := b.server.Command(b.t.Context(), b.t, "pg_verifybackup", dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pg_verifybackup: %w: %s", err, out.String())
	}
	return nil
}

// started runs PostgreSQL on a restored folder while do looks into it. Until recovery is over it lets nobody in.
func (b *bed) started(dir string, do func(conn *pgx.Conn)) {
	b.t.Helper()
	b.startedWith(dir, "off", do)
}

// archiveCommand puts WAL into the folder from which it is archived.
func (b *bed) archiveCommand() string {
	return "cp %p " + b.archived + "/.new && mv " + b.archived + "/.new " + b.archived + "/%f"
}

// startedWith is started with archive_mode.
func (b *bed) startedWith(dir, archiveMode string, do func(conn *pgx.Conn)) {
	b.t.Helper()
	sockets := pgtest.Dir(b.t)
	log := filepath.Join(sockets, "log")
	pgctl := func(args ...string) *exec.Cmd {
		cmd := b.server.Command(context.Background(), b.t, "pg_ctl", append([]string{"-D", dir, "-w", "-t", "300", "-l", log}, args...)...)
		cmd.Dir = sockets
		return cmd
	}
	options := "-c listen_addresses= -c archive_mode=" + archiveMode + " -c unix_socket_directories=" + sockets
	options += ` -c "archive_command=` + b.archiveCommand() + `"` // commands are not restored from a bucket
	if out, err := pgctl("-o", options, "start").CombinedOutput(); err != nil {
		said, _ := os.ReadFile(log)
		b.t.Fatalf("the restored data doesn't start: %v: %s%s", err, out, said)
	}
	defer func() {
		if out, err := pgctl("-m", "fast", "stop").CombinedOutput(); err != nil {
			b.t.Errorf("stop: %v: %s", err, out)
		}
	}()
	conn := b.connect(sockets)
	defer conn.Close(context.Background())
	do(conn)
	if b.t.Failed() {
		said, _ := os.ReadFile(log)
		b.t.Logf("%s", said)
	}
}

// connect waits until recovery is over.
func (b *bed) connect(sockets string) *pgx.Conn {
	b.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-look.C {
		conn, err := pgx.Connect(b.t.Context(), "host="+sockets+" user=postgres dbname=postgres")
		if err == nil {
			return conn
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(filepath.Join(sockets, "log"))
			b.t.Fatalf("%v: %s", err, said)
		}
	}
}

// holds checks that a restored folder has exactly the rows up to a number, by value.
func (b *bed) holds(dir string, last int) {
	b.t.Helper()
	b.started(dir, func(conn *pgx.Conn) {
		const all = "SELECT format('%s %s %s %s', count(*), max(n), coalesce(bool_and(filler = repeat(md5(n::text), 100)), true), (SELECT format('%s %s', count(*), max(n)) FROM aside)) FROM \"B\u00fccher und mehr\""
		var got, bulk string
		must(b.t, conn.QueryRow(b.t.Context(), all).Scan(&got))
		must(b.t, conn.QueryRow(b.t.Context(), "SELECT format('%s %s', count(*), sum(hashtext(filler))) FROM bulk").Scan(&bulk))
		if want := fmt.Sprintf("%d %d t %d %d", last, last, last, last); got != want {
			b.t.Errorf("the tables hold %s, want %s", got, want)
		}
		if want := b.value("SELECT format('%s %s', count(*), sum(hashtext(filler))) FROM bulk"); bulk != want {
			b.t.Errorf("bulk is %s, want %s", bulk, want)
		}
	})
}
