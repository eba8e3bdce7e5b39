// Package sample makes repositories for tests: small, and without a PostgreSQL.
package sample

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	// Lineage of the sample cluster.
	Lineage = "7412345678901234567-g1"
	// SegSize is that of its WAL.
	SegSize = postgres.MinSegSize
)

// Begin is when the first backup starts; each takes a minute.
var Begin = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// Segment is the name of a segment on timeline 1.
func Segment(n uint64) string {
	return postgres.Segment{Timeline: 1, Number: n, SegSize: SegSize}.Name()
}

// Content of a segment, which has as many bytes as a segment has.
func Content(n uint64) string {
	text := "content of " + Segment(n)
	return text + strings.Repeat("\x00", SegSize-len(text))
}

// Claim makes a lineage of a cluster of namespace demo.
func Claim(t testing.TB, store objstore.Store, lineage, cluster string) {
	t.Helper()
	if _, err := layout.Ensure(t.Context(), store, Begin); err != nil {
		t.Fatal(err)
	}
	claim := layout.Lineage{
		Lineage: lineage, Writer: layout.Writer{UID: "uid-" + cluster, Namespace: "demo", Name: cluster},
		SystemIdentifier: "7412345678901234567", Generation: "g1", SegmentSize: SegSize, PGMajor: 17, Created: Begin,
	}
	if _, err := layout.Claim(t.Context(), store, claim); err != nil {
		t.Fatal(err)
	}
}

// Archive puts a segment whose last commit was at the given time; the zero time is no commit.
func Archive(t testing.TB, store objstore.Store, lineage string, n uint64, commit time.Time, points ...wal.RestorePoint) {
	t.Helper()
	segment := postgres.Segment{Timeline: 1, Number: n, SegSize: SegSize}
	info := wal.Info{Writer: "test", StartLSN: segment.Start(), EndLSN: segment.Start() + SegSize/2, RestorePoints: points}
	if !commit.IsZero() {
		info.LastCommit = &commit
	}
	if err := wal.New(store).Put(t.Context(), lineage, segment.Name(), []byte(Content(n)), info); err != nil {
		t.Fatal(err)
	}
}

// Data makes a folder that looks like PGDATA.
func Data(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pgdata")
	for name, content := range map[string]string{
		"PG_VERSION": "17\n", "global/pg_control": "control", "base/5/16384": string(make([]byte, 3*postgres.PageSize)),
		"postgresql.auto.conf": "work_mem = '5MB'\n", "sch\u00f6ne Daten/\u6570\u636e 1.conf": "x = 1\n", "pg_wal/000000010000000000000001": "not stored",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place := filepath.Join(t.TempDir(), "fast disk")
	for _, folder := range []string{filepath.Join(dir, "pg_tblspc"), filepath.Join(place, "PG_17_202406281", "5")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(place, "PG_17_202406281", "5", "16390"), make([]byte, postgres.PageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(place, filepath.Join(dir, "pg_tblspc", "16385")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Backup backs that folder up, at this many minutes after Begin; it needs the given segment and the one after it, which it
// archives.
func Backup(t testing.TB, store objstore.Store, lineage, id, dir string, minutes int, segment uint64) *backup.Manifest {
	t.Helper()
	return take(t, store, lineage, id, dir, minutes, segment, false)
}

// WithDamage is Backup of a database with checksums, whose damaged pages are listed.
func WithDamage(t testing.TB, store objstore.Store, lineage, id, dir string, minutes int, segment uint64) *backup.Manifest {
	t.Helper()
	return take(t, store, lineage, id, dir, minutes, segment, true)
}

func take(t testing.TB, store objstore.Store, lineage, id, dir string, minutes int, segment uint64, checksums bool) *backup.Manifest {
	t.Helper()
	at := Begin.Add(time.Duration(minutes) * time.Minute)
	start, stop := postgres.LSN(segment*SegSize+0x28), postgres.LSN((segment+1)*SegSize+0x100)
	Archive(t, store, lineage, segment, time.Time{})
	Archive(t, store, lineage, segment+1, at)
	m, err := backup.Write(t.Context(), store, backup.Source{
		DataDir: dir, Lineage: lineage, SystemIdentifier: "7412345678901234567", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: SegSize, DataChecksums: checksums,
		Cluster: backup.Cluster{Namespace: "demo", Name: "shop", UID: "uid-shop", Secrets: []backup.Secret{
			{Purpose: backup.SecretApplication, Name: "shop-app", Data: backup.SecretData{"password": []byte("hunter2")}},
		}},
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: start, Timeline: 1, Time: at}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: stop, Time: at.Add(time.Minute), BackupLabel: "START WAL LOCATION: " + start.String() + "\n"}, nil
		},
	}, backup.Options{ID: id, ReportDamage: checksums})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
