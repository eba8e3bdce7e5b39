package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

func TestAParentThatCannotBeBuiltOnMakesAFullBackup(t *testing.T) {
	leaveOutForRaces(t)
	for name, test := range map[string]struct {
		change func(d *database, full *Manifest)
		why    string
	}{
		"it was deleted": {func(d *database, full *Manifest) {
			_, err := Delete(d.Context(), d.store, testLineage, full.ID)
			must(d, err)
		}, "is no longer in the repository"},
		"its manifest is damaged": {func(d *database, full *Manifest) {
			key := layout.ManifestKey(testLineage, full.ID)
			content, err := d.store.Get(d.Context(), key, 1<<30)
			must(d, err)
			content = bytes.Clone(content)
			content[len(content)-1] ^= 1
			must(d, d.store.Put(d.Context(), key, content, objstore.PutOptions{}))
		}, "the list of files is not what was stored"},
		"a pack is missing": {func(d *database, full *Manifest) {
			must(d, d.store.Delete(d.Context(), layout.PackKey(testLineage, full.ID, full.Packs[0].Name)))
		}, "it was uploaded and is not there"},
		"it is of a later time":        {func(d *database, _ *Manifest) { d.lsn = 0x2000100 }, "after this one's start"},
		"checksums were switched on":   {func(d *database, _ *Manifest) { d.source.DataChecksums = false }, "checksums were switched on or off"},
		"it is another system":         {func(d *database, _ *Manifest) { d.source.SystemIdentifier = "8" }, "from another database system"},
		"its timeline can't be placed": {func(d *database, _ *Manifest) { d.onTimeline(3, "") }, "it is unknown how timeline 3 descends"},
		"its timeline was left before": {func(d *database, full *Manifest) { d.onTimeline(2, "1\t"+full.StartLSN.String()+"\tx\n") }, "before the end of backup"},
		"its timeline is no ancestor": {func(d *database, full *Manifest) {
			d.onTimeline(3, "2\t"+full.StopLSN.String()+"\tx\n")
		}, "before the end of backup"},
	} {
		t.Run(name, func(t *testing.T) {
			d, full := withBigRelation(t, false)
			test.change(d, full)
			m, kept := d.backup(full.ID)
			if m.Type != Full || m.Parent != "" || !strings.Contains(m.Why, test.why) || m.Totals.CopiedBytes != m.Totals.LogicalBytes {
				t.Errorf("type %s, parent %q, why %q", m.Type, m.Parent, m.Why)
			}
			d.restores(m, kept)
			if contains(keys(t, d.store), "/claims/") {
				t.Error("a claim is left")
			}
		})
	}
}

// onTimeline lets the next backup be one of that timeline, with a history.
func (d *database) onTimeline(timeline uint32, history string) {
	start := d.source.Start
	d.source.Start = func(ctx context.Context) (Started, error) {
		started, err := start(ctx)
		started.Timeline = timeline
		return started, err
	}
	for number := uint64(2); number <= 3; number++ {
		name := postgres.Segment{Timeline: timeline, Number: number, SegSize: testSeg}.Name()
		must(d, wal.New(d.store).Put(context.Background(), testLineage, name, []byte("wal"), wal.Info{Writer: "test"}))
	}
	if history != "" {
		write(d, d.dir, fmt.Sprintf("pg_wal/%08X.history", timeline), []byte(history), 0o600)
	}
}

func TestAnIncrementalBackupFollowsAFailover(t *testing.T) {
	d, full := withBigRelation(t, false)
	d.lsn += 64
	d.onTimeline(2, "1\t"+d.lsn.String()+"\tno recovery target specified\n")
	d.set(bigRelation, 17)
	m, kept := d.backup(full.ID)
	if m.Type != Incremental {
		t.Errorf("type %s, why %s", m.Type, m.Why)
	}
	d.restores(m, kept)
}

func TestDeletingTheParentMeanwhileLeavesWhatIsClaimed(t *testing.T) {
	d, full := withBigRelation(t, false)
	d.set(bigRelation, 17)
	stop := d.source.Stop
	d.source.Stop = func(ctx context.Context) (Stopped, error) {
		if _, err := Delete(ctx, d.store, testLineage, full.ID); err != nil {
			return Stopped{}, err
		}
		return stop(ctx)
	}
	m, kept := d.backup(full.ID)
	if m.Type != Incremental {
		t.Errorf("type %s, why %s", m.Type, m.Why)
	}
	d.restores(m, kept)
	_, err := Delete(t.Context(), d.store, testLineage, m.ID)
	must(t, err)
	if left := keys(t, d.store); contains(left, "/packs/") || contains(left, "/claims/") {
		t.Errorf("left are %v", left)
	}
}

func TestTheRunThatCommitsTakesTheClaimsOfThoseThatWereKilledAlong(t *testing.T) {
	d, full := withBigRelation(t, true)
	opts := Options{ID: "b2", Parent: full.ID}
	for from := 1; ; from++ {
		broken := crashing(d.store, from, true)
		if _, err := Write(t.Context(), broken, d.source, opts); err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if contains(keys(t, d.store), "/claims/b2/") {
			break
		}
		if broken.Calls() < from {
			t.Fatal("no crash has left a claim")
		}
	}
	_, err := Write(t.Context(), d.store, d.source, opts)
	must(t, err)
	if left := keys(t, d.store); contains(left, "/claims/") {
		t.Errorf("claims are left: %v", left)
	}
}

func TestClaimsOfKilledWritersGoWithTheirBackupOrWithTime(t *testing.T) {
	d, full := withBigRelation(t, false)
	killed := &writing{store: d.store, source: d.source, opts: Options{ID: "killed"}, attempt: "a1"}
	must(t, killed.claim(t.Context(), full.Packs))
	_, err := Delete(t.Context(), d.store, testLineage, full.ID)
	must(t, err)
	if !contains(keys(t, d.store), "/packs/") {
		t.Fatal("claimed packs were deleted")
	}
	_, _, err = SweepOrphans(t.Context(), d.store, testLineage, time.Now().Add(-time.Hour))
	must(t, err)
	if !contains(keys(t, d.store), "/packs/") {
		t.Fatal("packs with a young claim were deleted")
	}
	_, err = Delete(t.Context(), d.store, testLineage, "killed")
	must(t, err)
	_, _, err = SweepOrphans(t.Context(), d.store, testLineage, time.Now().Add(time.Hour))
	must(t, err)
	if left := keys(t, d.store); contains(left, "/packs/") || contains(left, "/claims/") {
		t.Errorf("left are %v", left)
	}
}
