package generation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/test/testkit/walvolume"
)

// twoVolumes are a data volume and its WAL volume.
func twoVolumes(t *testing.T) Volume {
	t.Helper()
	v := Volume(filepath.Join(t.TempDir(), "data"))
	if err := os.Mkdir(string(v), 0o700); err != nil {
		t.Fatal(err)
	}
	walvolume.Beside(t, string(v))
	return v
}

func walOf(v Volume, id string) string { return walPath(walvolume.Path(string(v)), id) }

// fill makes a data generation with a segment that was written into the data directory.
func fill(t *testing.T, v Volume, id string) {
	t.Helper()
	begin(t, v, id)
	write(t, filepath.Join(v.PGData(id), "pg_wal", "archive_status", "000000010000000000000001.ready"), "")
	write(t, filepath.Join(v.PGData(id), "pg_wal", "000000010000000000000001"), id)
	g := Generation{ID: id, SystemIdentifier: "7", MajorVersion: 17, Origin: Initdb, CreatedAt: time.Unix(1, 0).UTC()}
	if of, _, isClone := strings.Cut(id, ".c"); isClone {
		g.Of = of
	}
	if err := v.Complete(g); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// copyOf a folder is a snapshot of a volume.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "snapshot")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func putBack(t *testing.T, dir, snapshot string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(snapshot)); err != nil {
		t.Fatal(err)
	}
}

func TestTheWALOfAWholeGenerationLiesOnTheWALVolume(t *testing.T) {
	v := twoVolumes(t)
	fill(t, v, "g1")
	g, err := v.Read("g1")
	if err != nil || g.WALVolume == "" {
		t.Fatalf("%+v, %v", g, err)
	}
	target, err := os.Readlink(filepath.Join(v.PGData("g1"), "pg_wal"))
	if err != nil || target != walOf(v, "g1") {
		t.Errorf("pg_wal leads to %q, %v", target, err)
	}
	content, err := os.ReadFile(filepath.Join(v.PGData("g1"), "pg_wal", "000000010000000000000001"))
	if err != nil || string(content) != "g1" || !exists(filepath.Join(walOf(v, "g1"), "archive_status", "000000010000000000000001.ready")) {
		t.Errorf("the WAL that was there is not: %q, %v", content, err)
	}
	data, errData := v.Used("g1")
	wal, errWAL := WAL(v).Used("g1")
	if err := errors.Join(errData, errWAL); err != nil || data == 0 || wal == 0 {
		t.Errorf("%d and %d bytes, %v", data, wal, err)
	}
}

func TestAVolumeWithoutAWALVolumeIsAsItWas(t *testing.T) {
	v := Volume(t.TempDir())
	begin(t, v, "g1")
	if dir, err := WAL(v).New("g1"); dir != "" || err != nil {
		t.Errorf("%q, %v", dir, err)
	}
	complete(t, v, "g1")
	if g, err := v.Read("g1"); err != nil || g.WALVolume != "" {
		t.Errorf("%+v, %v", g, err)
	}
}

// A server on any of these would come up without commits that were acknowledged.
func TestDataWithoutItsOwnLatestWALIsNotWhole(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, v Volume, wal string)
		says string
	}{
		"the WAL volume is not mounted": {func(t *testing.T, _ Volume, wal string) {
			if err := os.Remove(wal); err != nil {
				t.Fatal(err)
			}
		}, "there is no WAL volume"},
		"the WAL volume is a new one": {func(t *testing.T, v Volume, _ string) { walvolume.Beside(t, string(v)) }, "is new or was emptied"},
		"the WAL volume is that of another instance": {func(t *testing.T, v Volume, wal string) {
			other := twoVolumes(t)
			fill(t, other, "g1")
			putBack(t, wal, walvolume.Path(string(other)))
		}, "is another one"},
		"the WAL volume was emptied but for its identity": {func(t *testing.T, _ Volume, wal string) {
			if err := os.RemoveAll(filepath.Join(wal, "generations")); err != nil {
				t.Fatal(err)
			}
		}, "was emptied"},
		"somebody has replaced the link": {func(t *testing.T, v Volume, _ string) {
			place := filepath.Join(v.PGData("g1"), "pg_wal")
			if err := errors.Join(os.Remove(place), os.Mkdir(place, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "does not lead to the WAL volume"},
		"the WAL volume was put back": {func(t *testing.T, v Volume, wal string) {
			snapshot := copyOf(t, wal)
			if err := WAL(v).RenewPair("g1"); err != nil {
				t.Fatal(err)
			}
			putBack(t, wal, snapshot)
		}, "put back to an earlier state"},
		"the data volume was put back": {func(t *testing.T, v Volume, _ string) {
			before, err := os.ReadFile(filepath.Join(v.Dir("g1"), pairFile))
			if err := errors.Join(err, WAL(v).RenewPair("g1")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(v.Dir("g1"), pairFile), string(before))
		}, "put back to an earlier state"},
	} {
		t.Run(name, func(t *testing.T) {
			v := twoVolumes(t)
			fill(t, v, "g1")
			if err := v.Adopt("g1"); err != nil {
				t.Fatal(err)
			}
			c.harm(t, v, walvolume.Path(string(v)))
			if _, err := v.Resolve("g1"); !errors.Is(err, ErrNoWAL) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if v.Whole("g1") || v.Adopt("g1") == nil {
				t.Error("a server may be started on it")
			}
			if _, err := v.Begin("g1"); err == nil {
				t.Error("it is begun again, so what is left of it is removed")
			}
			if whole, err := AllCopies(v); len(whole) > 0 || err != nil {
				t.Errorf("%+v, %v", whole, err)
			}
		})
	}
}

func TestAPairIsOneWhereverAProcessIsKilledWhileItIsRenewed(t *testing.T) {
	v := twoVolumes(t)
	fill(t, v, "g1")
	ours, theirs := filepath.Join(v.Dir("g1"), pairFile), filepath.Join(filepath.Dir(walOf(v, "g1")), pairFile)
	before, err := readFile[pair](ours)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(theirs, pair{Token: "next", Previous: before.Token}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Read("g1"); err != nil {
		t.Errorf("after the first write: %v", err)
	}
	for range 2 {
		if err := WAL(v).RenewPair("g1"); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Read("g1"); err != nil {
			t.Errorf("after it was renewed: %v", err)
		}
	}
	after, err := readFile[pair](theirs)
	if err != nil || after.Previous != "" || after.Token == before.Token {
		t.Errorf("%+v, %v", after, err)
	}
}

// The folder on the data volume leads to the one on the WAL volume, so it is the first to be there and the last to go.
func TestWALGoesWithItsData(t *testing.T) {
	v := twoVolumes(t)
	for _, id := range []string{"g0", "g1", "g1.c1"} {
		fill(t, v, id)
	}
	begin(t, v, "g2")
	if dir, err := WAL(v).New("g2"); dir != walOf(v, "g2") || err != nil {
		t.Fatalf("%q, %v", dir, err)
	}
	if err := v.Adopt("g1.c1"); err != nil {
		t.Fatal(err)
	}
	if removed, err := v.RemoveIncomplete(); !slices.Equal(removed, []string{"g2"}) || err != nil {
		t.Errorf("%v, %v", removed, err)
	}
	if removed, err := v.Release("g0"); !slices.Equal(removed, []string{"g0"}) || err != nil {
		t.Errorf("%v, %v", removed, err)
	}
	if removed, err := v.RemoveOldCopies("", 0, time.Unix(10, 0)); !slices.Equal(removed, []string{"g1"}) || err != nil {
		t.Errorf("%v, %v", removed, err)
	}
	left, err := os.ReadDir(filepath.Join(walvolume.Path(string(v)), "generations"))
	if err != nil || len(left) != 1 || left[0].Name() != "g1.c1" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Data generations have the same names on all volumes of a cluster.
func TestTheWALVolumeOfAnotherInstanceLosesNothing(t *testing.T) {
	v, other := twoVolumes(t), twoVolumes(t)
	fill(t, v, "g1")
	fill(t, other, "g1")
	link := walvolume.Path(string(v))
	theirs, err := os.Readlink(walvolume.Path(string(other)))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(link), os.Symlink(theirs, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Begin("g1.c1"); !errors.Is(err, ErrForeignWAL) {
		t.Errorf("begun: %v", err)
	}
	if err := v.Remove("g1"); err != nil {
		t.Errorf("%v", err)
	}
	if _, err := other.Read("g1"); err != nil {
		t.Errorf("the other instance: %v", err)
	}
}

func TestAnInstanceThatHasLostItsWALVolumeIsClonedOntoANewOne(t *testing.T) {
	v := twoVolumes(t)
	fill(t, v, "g1")
	if err := v.Adopt("g1"); err != nil {
		t.Fatal(err)
	}
	walvolume.Beside(t, string(v))
	id, err := v.NextCopy("g1")
	if err != nil {
		t.Fatal(err)
	}
	begin(t, v, id)
	g := Generation{ID: id, Of: "g1", SystemIdentifier: "7", MajorVersion: 17, Origin: Clone, CreatedAt: time.Unix(1, 0).UTC()}
	if err := errors.Join(v.Complete(g), v.Adopt(id)); err != nil {
		t.Fatal(err)
	}
	if found, err := v.Resolve("g1"); err != nil || found.ID != id {
		t.Errorf("%+v, %v", found, err)
	}
	for _, at := range []int64{0, 3600} { // what can't be started stays for a while, as any copy that was replaced
		if removed, err := v.RemoveOldCopies("", time.Hour, time.Unix(at, 0)); err != nil || (at == 3600) != slices.Equal(removed, []string{"g1"}) {
			t.Errorf("removed after %d seconds: %v, %v", at, removed, err)
		}
	}
}

// Its last commits may be there and nowhere else.
func TestWhatAWALVolumeHasOfALostDataVolumeIsKeptForAWhile(t *testing.T) {
	lost := twoVolumes(t)
	fill(t, lost, "g1")
	wal := walvolume.Path(string(lost))
	if err := errors.Join(os.RemoveAll(string(lost)), os.Mkdir(string(lost), 0o700)); err != nil {
		t.Fatal(err)
	}
	fill(t, lost, "g1.c1")
	if err := lost.Adopt("g1.c1"); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(wal, "unpaired", "g1", "pg_wal", "000000010000000000000001")
	now := time.Now()
	if _, err := lost.RemoveOldCopies("", time.Hour, now); err != nil || !exists(kept) {
		t.Errorf("it was removed at once: %v", err)
	}
	if _, err := lost.RemoveOldCopies("", time.Hour, now.Add(2*time.Hour)); err != nil || exists(kept) {
		t.Errorf("it is still there: %v", err)
	}
	if g, err := lost.Read("g1.c1"); err != nil {
		t.Errorf("%+v, %v", g, err)
	}
}

// A data volume that knows its WAL volume gets no data whose WAL lies elsewhere.
func TestNoDataIsBegunWhileTheWALVolumeIsNotMounted(t *testing.T) {
	v := twoVolumes(t)
	fill(t, v, "g1")
	if err := os.Remove(walvolume.Path(string(v))); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Begin("g2"); !errors.Is(err, ErrNoWAL) {
		t.Errorf("%v", err)
	}
}

func TestDataThatIsTakenOverLeavesItsWALBehind(t *testing.T) {
	v := twoVolumes(t)
	fill(t, v, "g0")
	if err := v.Adopt("g0"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Begin("g1"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Inherit("g1", "g0", "g0"); err != nil {
		t.Fatal(err)
	}
	if exists(walOf(v, "g0")) || !exists(filepath.Join(v.PGData("g1"), "PG_VERSION")) {
		t.Error("the WAL of the previous data is still there, or its files are not")
	}
	if err := os.Mkdir(filepath.Join(v.PGData("g1"), "pg_wal"), 0o700); err != nil {
		t.Fatalf("pg_wal is in the way of the next one: %v", err)
	}
	if err := WAL(v).Place("g1"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Continue("g1"); err != nil { // after a crash
		t.Fatal(err)
	}
	if _, err := v.Inherit("g1", "g0", ""); err != nil {
		t.Fatal(err)
	}
	g := Generation{ID: "g1", SystemIdentifier: "7", MajorVersion: 17, Origin: Restore}
	if err := errors.Join(v.Complete(g), v.Adopt("g1")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Resolve("g1"); err != nil {
		t.Error(err)
	}
}
