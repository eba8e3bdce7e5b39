// Package buckettest makes buckets with a backup and WAL in memory, for tests.
package buckettest

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// Lineage of the cluster shop, whose UID is "u", in namespace demo.
const Lineage = "7-g0"

const seg = postgres.DefaultSegSize

// Minute is a moment of these tests: the backup stopped at Minute(1), and segment n holds a commit of Minute(n).
func Minute(n int) time.Time { return time.Date(2026, 3, 1, 12, n, 0, 0, time.UTC) }

// New makes a bucket that has a cluster shop with one backup in segment 3 and WAL in the segments that are given, each with one commit
// at its number in minutes.
func New(t testing.TB, numbers ...uint64) *mem.Store {
	t.Helper()
	return WithLogins(t, nil, numbers...)
}

// shop is what the backup has recorded of its cluster, where nothing else is said.
const shop = `{"spec":{"version":17,"storage":{"size":"1Gi"},"bootstrap":{"initdb":{"database":"shop","owner":"keeper"}},"archive":{"repository":{"name":"repo"}}}}`

// WithDamagedPages makes the same, with two pages in the backup that failed their checksum in the database: blocks 1 and 2 of base/5/16385.
func WithDamagedPages(t testing.TB, numbers ...uint64) *mem.Store {
	t.Helper()
	page := strings.Repeat("\x00", 8) + strings.Repeat("x", postgres.PageSize-8)
	store := mem.New()
	fillWith(t, store, content{object: shop, files: map[string]string{"base/5/16385": strings.Repeat("\x00", postgres.PageSize) + page + page}}, numbers...)
	return store
}

// WithRecord makes the same, with another record of the cluster in the backup.
func WithRecord(t testing.TB, object string, numbers ...uint64) *mem.Store {
	t.Helper()
	store := mem.New()
	fill(t, store, nil, object, numbers...)
	return store
}

// WithLogins makes the same, with Secrets in the backup.
func WithLogins(t testing.TB, secrets []backup.Secret, numbers ...uint64) *mem.Store {
	t.Helper()
	store := mem.New()
	fill(t, store, secrets, shop, numbers...)
	return store
}

// Fill makes the same in a store that is given, such as one that encrypts.
func Fill(t testing.TB, store objstore.Store, numbers ...uint64) {
	t.Helper()
	fill(t, store, nil, shop, numbers...)
}

// content is what differs between the backups of these buckets.
type content struct {
	secrets []backup.Secret
	object  string
	files   map[string]string // beside those that each has
}

func fill(t testing.TB, store objstore.Store, secrets []backup.Secret, object string, numbers ...uint64) {
	t.Helper()
	fillWith(t, store, content{secrets: secrets, object: object}, numbers...)
}

func fillWith(t testing.TB, store objstore.Store, of content, numbers ...uint64) {
	t.Helper()
	ctx := t.Context()
	Claim(t, store, Lineage, Minute(0))
	archive := wal.New(store)
	for _, n := range append([]uint64{3}, numbers...) {
		s, at := postgres.Segment{Timeline: 1, Number: n, SegSize: seg}, Minute(int(n))
		info := wal.Info{Writer: "w", EndLSN: s.End(), LastCommit: &at, RestorePoints: []wal.RestorePoint{{Name: "p", LSN: s.Start() + 8, Time: at}}}
		if n != 5 {
			info.RestorePoints = nil
		}
		if err := archive.Put(ctx, Lineage, s.Name(), []byte{byte(n)}, info); err != nil {
			t.Fatal(err)
		}
	}
	writeBackup(t, store, of)
}

// Claim makes a lineage of the cluster shop.
func Claim(t testing.TB, store objstore.Store, lineage string, created time.Time) {
	t.Helper()
	claim(t, store, lineage, created, layout.Writer{UID: "u", Namespace: "demo", Name: "shop"})
}

// ClaimFor makes a lineage of another cluster.
func ClaimFor(t testing.TB, store objstore.Store, lineage string, writer layout.Writer) {
	t.Helper()
	claim(t, store, lineage, Minute(0), writer)
}

func claim(t testing.TB, store objstore.Store, lineage string, created time.Time, writer layout.Writer) {
	t.Helper()
	claim := layout.Lineage{
		Lineage: lineage, Writer: writer,
		SystemIdentifier: "7", Generation: lineage[strings.Index(lineage, "-")+1:], SegmentSize: seg, PGMajor: 17, Created: created,
	}
	if _, err := layout.Claim(t.Context(), store, claim); err != nil {
		t.Fatal(err)
	}
}

func writeBackup(t testing.TB, store objstore.Store, of content) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"PG_VERSION": "17\n", "global/pg_control": "control", "backup_me": "x"}
	maps.Copy(files, of.files)
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := backup.Write(t.Context(), store, backup.Source{
		DataDir: dir, Lineage: Lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: seg, DataChecksums: of.files != nil,
		Cluster: backup.Cluster{Name: "shop", Namespace: "demo", UID: "u", Secrets: of.secrets, Object: []byte(of.object)},
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: 3*seg + 0x28, Timeline: 1, Time: Minute(0)}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: 3*seg + 0x100, Time: Minute(1), BackupLabel: "START WAL LOCATION: 0/3000028 (file 000000010000000000000003)\n"}, nil
		},
	}, backup.Options{ID: "b", WALTimeout: time.Second, WALPoll: time.Millisecond, ReportDamage: true})
	if err != nil {
		t.Fatal(err)
	}
}
