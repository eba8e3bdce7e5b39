package survey

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

const lineage = "7-g0"

// bucket has a cluster shop with one backup in segment 3 and WAL in the segments that are given, each with one commit
// at its number in minutes.
func bucket(t *testing.T, numbers ...uint64) *mem.Store {
	t.Helper()
	store, ctx := mem.New(), t.Context()
	claim := repository.Lineage{
		Lineage: lineage, Writer: repository.Writer{UID: "u", Namespace: "demo", Name: "shop"},
		SystemIdentifier: "7", Generation: "g0", SegmentSize: seg, PGMajor: 17, Created: clock(9, 0),
	}
	if _, err := repository.Claim(ctx, store, claim); err != nil {
		t.Fatal(err)
	}
	archive := wal.New(store)
	for _, n := range append([]uint64{3}, numbers...) {
		s, at := postgres.Segment{Timeline: 1, Number: n, SegSize: seg}, clock(12, int(n))
		info := wal.Info{Writer: "w", EndLSN: s.End(), LastCommit: &at, RestorePoints: []wal.RestorePoint{{Name: "p", LSN: s.Start() + 8, Time: at}}}
		if n != 5 {
			info.RestorePoints = nil
		}
		if err := archive.Put(ctx, lineage, s.Name(), []byte{byte(n)}, info); err != nil {
			t.Fatal(err)
		}
	}
	writeBackup(t, store)
	return store
}

func writeBackup(t *testing.T, store *mem.Store) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"PG_VERSION": "17\n", "global/pg_control": "control", "backup_me": "x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := backup.Write(t.Context(), store, backup.Source{
		DataDir: dir, Lineage: lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: seg,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: 3*seg + 0x28, Timeline: 1, Time: clock(12, 0)}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: 3*seg + 0x100, Time: clock(12, 1), BackupLabel: "START WAL LOCATION: 0/3000028 (file 000000010000000000000003)\n"}, nil
		},
	}, backup.Options{ID: "b", WALTimeout: time.Second, WALPoll: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, store *mem.Store, q Question) *Lineage {
	t.Helper()
	report, err := Read(t.Context(), store, q, func() time.Time { return clock(13, 0) })
	if err != nil || len(report.Lineages) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	return &report.Lineages[0]
}

func TestTheReachOfABackupIsReadFromTheBucket(t *testing.T) {
	l := read(t, bucket(t, 4, 5, 6), Question{Cluster: "shop", Namespace: "demo", ClusterUID: "u"})
	r := l.Reach
	if l.Chosen == nil || l.Chosen.ID != "b" || r.Segments != 4 || r.First.Number != 3 || r.Last.Number != 6 || r.Missing != "" ||
		r.LastCommit == nil || !r.LastCommit.Equal(clock(12, 6)) || r.EndLSN != 7*seg {
		t.Errorf("%+v", l)
	}
}

func TestAHoleEndsTheReach(t *testing.T) {
	r := read(t, bucket(t, 4, 6), Question{Lineage: lineage, BackupID: "b"}).Reach
	if r.Missing != "000000010000000000000005" || r.Last.Number != 4 {
		t.Errorf("%+v", r)
	}
}

func TestARestorePointIsFoundInTheHeaders(t *testing.T) {
	l := read(t, bucket(t, 4, 5, 6), Question{Cluster: "shop", Namespace: "demo", Target: Target{RestorePoint: "p"}})
	if len(l.Points) != 1 || l.Points[0].LSN != 5*seg+8 {
		t.Errorf("%+v", l.Points)
	}
}

func TestWhatTheRepositoryDoesNotKnowIsSaid(t *testing.T) {
	store := bucket(t)
	for name, q := range map[string]Question{
		"a cluster":              {Cluster: "other", Namespace: "demo"},
		"another cluster's name": {Cluster: "shop", Namespace: "demo", ClusterUID: "v"},
		"a lineage":              {Lineage: "8-g0", BackupID: "b"},
		"a backup":               {Lineage: lineage, BackupID: "c"},
	} {
		if _, err := Read(t.Context(), store, q, time.Now); !errors.Is(err, ErrNotThere) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
