package bucket

import (
	"context"
	"encoding/json"
	"fmt"
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
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/heaptest"
)

const segSize = 1 << 20

// history is a store with a lineage of this many backups, each with a header of more than 100 KiB.
func history(t *testing.T, backups int) (objstore.Store, layout.Lineage) {
	t.Helper()
	store := mem.New()
	return store, fill(t, store, "7-g1", backups)
}

func fill(t *testing.T, store objstore.Store, lineage string, backups int) layout.Lineage {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	owner := layout.Lineage{Lineage: lineage, Writer: layout.Writer{UID: "u1", Namespace: "demo", Name: "shop"}, SegmentSize: segSize, Created: time.Unix(0, 0).UTC()}
	_, err := layout.Claim(t.Context(), store, owner)
	must(err)
	must(os.MkdirAll(filepath.Join(dir, "global"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "global/pg_control"), []byte(strings.Repeat("c", 8192)), 0o600))
	for i := range backups {
		at, lsn := time.Unix(int64(i)*60, 0).UTC(), postgres.LSN((i+1)*segSize)
		object, err := json.Marshal(map[string]string{"large": strings.Repeat(fmt.Sprintf("%08d", i), 1<<14)})
		must(err)
		segment := postgres.Segment{Timeline: 1, Number: uint64(i + 1), SegSize: segSize}.Name()
		must(wal.New(store).Put(t.Context(), owner.Lineage, segment, []byte(segment), wal.Info{Writer: "test", LastCommit: &at}))
		_, err = backup.Write(t.Context(), store, backup.Source{
			DataDir: dir, Lineage: owner.Lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segSize,
			Cluster: backup.Cluster{Object: object},
			Start: func(context.Context) (backup.Started, error) {
				return backup.Started{LSN: lsn + 40, Timeline: 1, Time: at}, nil
			},
			Stop: func(context.Context) (backup.Stopped, error) {
				return backup.Stopped{LSN: lsn + 100, Time: at, BackupLabel: "x"}, nil
			},
		}, backup.Options{ID: fmt.Sprintf("b%04d", i)})
		must(err)
	}
	return owner
}

func TestPlanningHoldsOneHeaderAtATime(t *testing.T) {
	peak := func(backups int) int64 {
		store, owner := history(t, backups)
		return heaptest.Peak(store, func(s objstore.Store) {
			found, err := Examine(t.Context(), s, []layout.Lineage{owner}, "", pitr.Target{})
			if err != nil {
				t.Fatal(err)
			}
			last := fmt.Sprintf("b%04d", backups-1)
			if b := found.Candidates[0].Reach.Backup; b.ID != last {
				t.Errorf("it is %s, not %s", b.ID, last)
			}
		})
	}
	short, long := peak(50), peak(300)
	t.Logf("%d KiB with 50 backups, %d KiB with 300", short>>10, long>>10)
	if long > short+1<<20 {
		t.Errorf("it keeps %d KiB with 50 backups, and %d KiB with 300", short>>10, long>>10)
	}
}

func TestPlanningHoldsNoHeaderOfALineageThatItHasRead(t *testing.T) {
	store, owners := mem.New(), []layout.Lineage{}
	for i := range 40 {
		owners = append(owners, fill(t, store, fmt.Sprintf("7-g%d", i), 1))
	}
	peak := func(lineages int) int64 {
		return heaptest.Peak(store, func(s objstore.Store) {
			if found, err := Examine(t.Context(), s, owners[:lineages], "", pitr.Target{}); err != nil || len(found.Candidates) != lineages {
				t.Errorf("%d candidates, %v", len(found.Candidates), err)
			}
		})
	}
	few, many := peak(10), peak(40)
	t.Logf("%d KiB with 10 lineages, %d KiB with 40", few>>10, many>>10)
	if many > few+1<<20 {
		t.Errorf("it keeps %d KiB with 10 lineages, and %d KiB with 40", few>>10, many>>10)
	}
}
