package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pitrtest"
)

// sayable says that the command line has flags for a case, and knows no more than its bucket.
func sayable(c *pitrtest.Case) bool {
	return c.Target.XID == 0 && c.Target.Inclusive == nil && !c.Live() && c.Facts.Present == ""
}

// flagsFor are those of a case.
func flagsFor(c *pitrtest.Case) *restore {
	t := c.Target
	r := &restore{
		app: &app{out: io.Discard, errOut: io.Discard, now: func() time.Time { return c.Facts.Now }}, action: "promote", dir: "/nowhere",
		toName: t.RestorePoint, immediate: t.Immediate, toTimeline: t.Timeline, latest: t.End(),
	}
	if t.Time != nil {
		r.toTime = t.Time.Format(time.RFC3339Nano)
	}
	if !t.LSN.IsZero() {
		r.toLSN = t.LSN.String()
	}
	return r
}

func TestTheCommandLineDecidesEveryCaseOfTheTable(t *testing.T) {
	for _, c := range pitrtest.Cases() {
		if !sayable(&c) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			store := mem.New()
			c.Fill(t, store)
			r := flagsFor(&c)
			if err := r.parse(c.BackupID); err != nil {
				t.Fatal(err)
			}
			found, err := r.find(t.Context(), store, c.BackupID)
			if c.Want.Code != pitr.Reachable {
				checkRefusal(t, &c, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if w := c.Want; w.End && !c.Target.End() && (found.last != w.Last || found.until != w.Bound) || (!w.End || c.Target.End()) && found.last != "" {
				t.Errorf("replay ends with %q at %s, want %+v", found.last, found.until, w)
			}
			if w := c.Want; found.header.Lineage != w.Lineage || found.header.ID != w.Backup || found.timeline != w.Timeline || found.stopAt.End() != w.End {
				t.Errorf("from backup %s/%s along timeline %d to %s, want %+v", found.header.Lineage, found.header.ID, found.timeline, found.stopAt, w)
			}
		})
	}
}

// checkRefusal looks for what the sentence has to name.
func checkRefusal(t *testing.T, c *pitrtest.Case, err error) {
	t.Helper()
	want := c.Want
	kind := errUnreachable
	if want.Code == pitr.NoBackup {
		kind = lookup.ErrNotThere
		if len(c.Lineages[0].Damaged) > 0 {
			kind = backup.ErrCorrupt
		}
	}
	if !errors.Is(err, kind) {
		t.Fatalf("%v, want %v", err, kind)
	}
	parts := map[pitr.Code][]string{
		pitr.InFuture: {"--to-time", "in the future"}, pitr.HistoryMissing: {postgres.HistoryName(want.Unlinked), "--to-timeline"},
		pitr.BackupIncomplete: {want.Backup, want.Missing}, pitr.Gap: {want.Missing}, pitr.BeyondEnd: {"the archive ends at LSN", "--latest"},
		pitr.PointAmbiguous: {"--to-lsn"}, pitr.PointNotFound: {"pg_create_restore_point"}, pitr.BeforeOldestBackup: {"the oldest backup"},
		pitr.NoBackupOnTimeline: {"no backup leads to timeline"}, pitr.NoBackup: {"no backup"},
	}[want.Code]
	for _, part := range append(parts, c.Lineages[0].Damaged...) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
	if len(parts) == 0 || strings.Contains(err.Error(), "spec.") {
		t.Errorf("%s: %v", want.Code, err)
	}
}
