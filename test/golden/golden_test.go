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
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// each runs a test on the repository of every version, in each way to store it.
func each(t *testing.T, test func(t *testing.T, store objstore.Store, want map[string]string)) {
	t.Helper()
	versions, err := filepath.Glob("testdata/v*")
	if err != nil || len(versions) != backup.FormatVersion {
		t.Fatalf("there are repositories of %v, and the version is %d: make golden makes one", versions, backup.FormatVersion)
	}
	for _, version := range versions {
		want := contentsOf(t, version)
		for _, way := range waysOf(version) {
			t.Run(filepath.Base(version)+" "+way, func(t *testing.T) {
				store, err := Open(filepath.Join(version, way), way)
				if err != nil {
					t.Fatal(err)
				}
				if way != Plain {
					if err := sealed.Unlock(t.Context(), store); err != nil {
						t.Fatal(err)
					}
				}
				test(t, store, want)
			})
		}
	}
}

// waysOf says how repositories of a version may be stored: the first one knew no signatures.
func waysOf(version string) []string {
	if filepath.Base(version) == "v1" {
		return []string{Plain, Encrypted}
	}
	return Ways
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

// TestASignedRepositoryIsReadableAsItLiesThereAndNotWithoutItsKey: the content is as it was, and who has no key, or that of a repository
// that is encrypted, reads nothing of it.
func TestASignedRepositoryIsReadableAsItLiesThereAndNotWithoutItsKey(t *testing.T) {
	const dir = "testdata/v2/signed"
	object, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(layout.LineageKey(Lineage))))
	if err != nil || !bytes.Contains(object, []byte(`"lineage": "`+Lineage+`"`)) {
		t.Errorf("the content isn't there as it is: %q, %v", object, err)
	}
	for _, way := range []string{Plain, Encrypted} {
		store, err := Open(dir, way)
		if err != nil {
			t.Fatal(err)
		}
		lineages, err := inventory.NewReader().Read(t.Context(), store)
		if err == nil && len(lineages) > 0 && len(lineages[0].Backups) > 0 {
			t.Errorf("it is read as one that is %s: %+v", way, lineages[0].Backups)
		}
		if _, err := backup.ReadManifest(t.Context(), store, Lineage, Full); err == nil {
			t.Errorf("a manifest is read as one that is %s", way)
		}
	}
}

// TestNoByteOfASignedRepositoryCanBeChanged: whatever object it is in, what reads that object refuses it.
func TestNoByteOfASignedRepositoryCanBeChanged(t *testing.T) {
	const dir = "testdata/v2/signed"
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err == nil {
			t.Run(key, func(t *testing.T) { refusedWhenChanged(t, dir, key) })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// refusedWhenChanged changes a byte in the middle of an object of a copy.
func refusedWhenChanged(t *testing.T, dir, key string) {
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(copied, key)
	object, err := os.ReadFile(place)
	if err != nil {
		t.Fatal(err)
	}
	object[len(object)/2] ^= 1
	if err := os.WriteFile(place, object, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := Open(copied, Signed)
	if err != nil {
		t.Fatal(err)
	}
	if err := readAll(t, store); err == nil {
		t.Error("it is read all the same")
	}
}

// readAll reads every object of a repository, with what restores.
func readAll(t *testing.T, store objstore.Store) error {
	t.Helper()
	if err := sealed.Unlock(t.Context(), store); err != nil {
		return err
	}
	if _, err := layout.ReadMarker(t.Context(), store); err != nil {
		return err
	}
	if _, err := layout.ReadLineage(t.Context(), store, Lineage); err != nil {
		return err
	}
	for _, id := range []string{Full, Changed} {
		m, err := backup.ReadManifest(t.Context(), store, Lineage, id)
		if err != nil {
			return err
		}
		if err := backup.Restore(t.Context(), store, m, filepath.Join(t.TempDir(), id), backup.RestoreOptions{}); err != nil {
			return err
		}
	}
	archive := wal.New(store)
	for number := uint64(1); number <= Last+1; number++ { // the last of which is a piece
		if _, _, err := archive.Get(t.Context(), Lineage, Segment(number).Name()); err != nil {
			return err
		}
	}
	return nil
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
