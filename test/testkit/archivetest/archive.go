// Package archivetest archives what a real PostgreSQL writes into a store, and backs it up there, without an agent.
package archivetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// SegmentSize of the WAL of servers that are started with InitArg.
const (
	SegmentSize = 1 << 20
	InitArg     = "--wal-segsize=1"
)

// patience with the archiver.
const patience = 2 * time.Minute

// Archive is that of a server.
type Archive struct {
	T      *testing.T
	Server *pgtest.Server
	// Folder of archive_command, from which Push puts files into the Store.
	Folder  string
	Store   objstore.Store
	Lineage string
	// Last segment that was archived.
	Last string
}

// Parameters have a server archive into a folder.
func Parameters(folder string) map[string]string {
	return map[string]string{"archive_mode": "on", "archive_command": "cp %p " + folder + "/.new && mv " + folder + "/.new " + folder + "/%f", "max_wal_size": "32MB", "autovacuum": "off"}
}

// New claims a lineage of the server for a cluster with this UID.
func New(t *testing.T, server *pgtest.Server, folder string, store objstore.Store, uid string) *Archive {
	t.Helper()
	a := &Archive{T: t, Server: server, Folder: folder, Store: store, Lineage: layout.LineageName(system(server), generation)}
	claim := layout.Lineage{
		Lineage: a.Lineage, Writer: layout.Writer{UID: uid, Namespace: "demo", Name: "shop"},
		SystemIdentifier: system(server), Generation: generation, SegmentSize: SegmentSize, PGMajor: server.Major, Created: time.Now(),
	}
	if _, err := layout.Ensure(t.Context(), store, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := layout.Claim(t.Context(), store, claim); err != nil {
		t.Fatal(err)
	}
	return a
}

const generation = "g0"

func system(server *pgtest.Server) string {
	return server.SQL("SELECT system_identifier::text FROM pg_control_system()")
}

// Switch switches segments, waits until PostgreSQL has archived all, and puts what is new into the store.
func (a *Archive) Switch() {
	a.T.Helper()
	a.Last = a.Server.SQL("SELECT pg_walfile_name(pg_switch_wal() - 1)")
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); ; <-look.C {
		if _, err := os.Stat(filepath.Join(a.Folder, a.Last)); err == nil {
			break
		}
		if time.Now().After(deadline) {
			a.T.Fatalf("%s was not archived: %s", a.Last, a.Server.Log())
		}
	}
	a.push()
}

// push puts all that is archived into the store.
func (a *Archive) push() {
	a.T.Helper()
	names, err := os.ReadDir(a.Folder)
	if err != nil {
		a.T.Fatal(err)
	}
	archive, tail := wal.New(a.Store), postgres.WALTail{}
	for _, entry := range names {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(a.Folder, entry.Name()))
		if err != nil {
			a.T.Fatal(err)
		}
		info := wal.Info{Writer: "test"}
		if scan, err := postgres.ScanWAL(content, tail); err == nil {
			info.EndLSN, tail = scan.End, scan.Tail
			if scan.Commits > 0 {
				info.LastCommit = &scan.Last.Time
			}
		}
		if err := archive.Put(a.T.Context(), a.Lineage, entry.Name(), content, info); err != nil {
			a.T.Fatal(err)
		}
	}
}

// Backup takes one while something is done.
func (a *Archive) Backup(id string, meanwhile func()) *backup.Manifest {
	a.T.Helper()
	conn, err := pgx.Connect(a.T.Context(), a.Server.DSN())
	if err != nil {
		a.T.Fatal(err)
	}
	defer conn.Close(context.Background())
	start := func(ctx context.Context) (backup.Started, error) {
		at, lsn, timeline := time.Now(), "", int64(0)
		err := conn.QueryRow(ctx, "SELECT pg_backup_start('test', true)::text, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint").Scan(&lsn, &timeline)
		if err != nil {
			return backup.Started{}, err
		}
		parsed, err := postgres.ParseLSN(lsn)
		return backup.Started{LSN: parsed, Timeline: uint32(timeline), Time: at}, err
	}
	stop := func(ctx context.Context) (s backup.Stopped, err error) {
		meanwhile()
		lsn := ""
		err = conn.QueryRow(ctx, "SELECT lsn::text, labelfile, spcmapfile FROM pg_backup_stop(false)").Scan(&lsn, &s.BackupLabel, &s.TablespaceMap)
		if err != nil {
			return s, err
		}
		s.Time = time.Now()
		a.Switch()
		s.LSN, err = postgres.ParseLSN(lsn)
		return s, err
	}
	manifest, err := backup.Write(a.T.Context(), a.Store, backup.Source{
		DataDir: a.Server.DataDir, Start: start, Stop: stop, Lineage: a.Lineage, SystemIdentifier: system(a.Server),
		PGVersion: a.Server.Version.String(), PGMajor: a.Server.Major, DataChecksums: true, WALSegmentSize: SegmentSize,
	}, backup.Options{ID: id, WALTimeout: patience})
	if err != nil {
		a.T.Fatal(err)
	}
	return manifest
}
