package golden

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// each runs a test on the repository of every version, plain and encrypted.
func each(t *testing.T, test func(t *testing.T, store objstore.Store, want map[string]string)) {
	t.Helper()
	versions, err := filepath.Glob("testdata/v*")
	if err != nil || len(versions) != backup.FormatVersion {
		t.Fatalf("there are repositories of %v, and the version is %d: make golden makes one", versions, backup.FormatVersion)
	}
	for _, version := range versions {
		want := contentsOf(t, version)
		for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
			t.Run(filepath.Base(version)+" "+name, func(t *testing.T) {
				store, err := Open(filepath.Join(version, name), encrypted)
				if err != nil {
					t.Fatal(err)
				}
				if encrypted {
					if err := sealed.Unlock(t.Context(), store); err != nil {
						t.Fatal(err)
					}
				}
				test(t, store, want)
			})
		}
	}
}

func contentsOf(t *testing.T, version string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(version, ContentsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(content)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	return want
}

func TestEveryBackupIsWholeAndRestoresToItsContents(t *testing.T) {
	each(t, func(t *testing.T, store objstore.Store, want map[string]string) {
		got := map[string]string{}
		for _, id := range []string{Full, Changed} {
			m, err := backup.ReadManifest(t.Context(), store, Lineage, id)
			if err != nil {
				t.Fatal(err)
			}
			if incremental := id == Changed; incremental != (m.Type == backup.Incremental && m.Parent == Full && m.Totals.CopiedBytes < m.Totals.LogicalBytes) {
				t.Errorf("%s is %s on %q: %s", id, m.Type, m.Parent, m.Why)
			}
			if verified, err := backup.Verify(t.Context(), store, m, backup.VerifyOptions{}); err != nil || !verified.Whole {
				t.Errorf("%s: %+v, %v", id, verified, err)
			}
			dir := filepath.Join(t.TempDir(), id)
			if err := backup.Restore(t.Context(), store, m, dir, backup.RestoreOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := Sums(dir, id, got); err != nil {
				t.Fatal(err)
			}
			delete(got, id+" backup_label") // it is the manifest's
		}
		if !maps.Equal(got, want) {
			t.Errorf("restored\n%v\nwant\n%v", got, want)
		}
	})
}

func TestTheArchiveReadsAsItWasWritten(t *testing.T) {
	each(t, func(t *testing.T, store objstore.Store, _ map[string]string) {
		archive := wal.New(store)
		for number := uint64(1); number <= Last; number++ {
			content, header, err := archive.Get(t.Context(), Lineage, Segment(number).Name())
			if err != nil || !bytes.Equal(content, SegmentContent(number)) || header.StartLSN != Segment(number).Start() || header.LastCommit == nil {
				t.Errorf("segment %d: %d bytes, %+v, %v", number, len(content), header, err)
			}
			if points := len(header.RestorePoints); (points == 1) != (number == Last) {
				t.Errorf("segment %d has %d restore points", number, points)
			}
		}
		if end, err := archive.OpenEnd(t.Context(), Lineage, Segment(Last+1)); err != nil || end != OpenBytes {
			t.Errorf("the open segment is there up to %d, %v", end, err)
		}
		coverage, err := archive.Coverage(t.Context(), Lineage)
		if err != nil || len(coverage.Timelines) != 1 || len(coverage.Timelines[0].Holes) > 0 || !coverage.Timelines[0].Open || coverage.Timelines[0].Last.Name() != Segment(Last+1).Name() {
			t.Errorf("%+v, %v", coverage, err)
		}
	})
}

func TestTheInventoryHasBothBackupsAndTheirWindow(t *testing.T) {
	each(t, func(t *testing.T, store objstore.Store, _ map[string]string) {
		lineages, err := inventory.NewReader().Read(t.Context(), store)
		if err != nil || len(lineages) != 1 {
			t.Fatalf("%+v, %v", lineages, err)
		}
		l, ids := lineages[0], []string{}
		for _, b := range l.Backups {
			ids = append(ids, b.ID)
		}
		if slices.Sort(ids); fmt.Sprint(ids) != fmt.Sprint([]string{Full, Changed}) || len(l.Damaged) > 0 {
			t.Errorf("backups %v, damaged %v", ids, l.Damaged)
		}
		if l.Lineage.Lineage != Lineage || l.Window.From.IsZero() || l.Window.To.IsZero() || l.Window.Missing != "" {
			t.Errorf("%+v", l)
		}
	})
}

// TestWhatIsGeneratedNowHasTheSameContents: a change of the code that writes shows here, not only in what was written before.
func TestWhatIsGeneratedNowHasTheSameContents(t *testing.T) {
	dir := t.TempDir()
	if err := Generate(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got, want := contentsOf(t, dir), contentsOf(t, filepath.Join("testdata", fmt.Sprint("v", backup.FormatVersion))); !maps.Equal(got, want) {
		t.Errorf("it has %v, not %v", got, want)
	}
}
