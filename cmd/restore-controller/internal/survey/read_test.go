package survey

import (
	"errors"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/buckettest"
)

func read(t *testing.T, store *mem.Store, q Question) *Lineage {
	t.Helper()
	report, err := Read(t.Context(), store, q, func() time.Time { return clock(13, 0) })
	if err != nil || len(report.Lineages) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	return &report.Lineages[0]
}

func TestTheReachOfABackupIsReadFromTheBucket(t *testing.T) {
	l := read(t, buckettest.New(t, 4, 5, 6), Question{Cluster: "shop", Namespace: "demo", ClusterUID: "u"})
	r := l.Reach
	if l.Chosen == nil || l.Chosen.ID != "b" || r.Segments != 4 || r.First.Number != 3 || r.Last.Number != 6 || r.Missing != "" ||
		r.LastCommit == nil || !r.LastCommit.Equal(buckettest.Minute(6)) || r.EndLSN != 7*seg {
		t.Errorf("%+v", l)
	}
}

func TestAHoleEndsTheReach(t *testing.T) {
	r := read(t, buckettest.New(t, 4, 6), Question{Lineage: buckettest.Lineage, BackupID: "b"}).Reach
	if r.Missing != "000000010000000000000005" || r.Last.Number != 4 {
		t.Errorf("%+v", r)
	}
}

func TestARestorePointIsFoundInTheHeaders(t *testing.T) {
	l := read(t, buckettest.New(t, 4, 5, 6), Question{Cluster: "shop", Namespace: "demo", Target: Target{RestorePoint: "p"}})
	if len(l.Points) != 1 || l.Points[0].LSN != 5*seg+8 {
		t.Errorf("%+v", l.Points)
	}
}

func TestWhatTheRepositoryDoesNotKnowIsSaid(t *testing.T) {
	store := buckettest.New(t)
	for name, q := range map[string]Question{
		"a cluster":              {Cluster: "other", Namespace: "demo"},
		"another cluster's name": {Cluster: "shop", Namespace: "demo", ClusterUID: "v"},
		"a lineage":              {Lineage: "8-g0", BackupID: "b"},
		"a backup":               {Lineage: buckettest.Lineage, BackupID: "c"},
	} {
		if _, err := Read(t.Context(), store, q, time.Now); !errors.Is(err, ErrNotThere) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOneClusterIsMeantOrItIsSaidWhichThereAre(t *testing.T) {
	store := buckettest.New(t, 4)
	whole := Question{Namespace: "elsewhere"}
	if l := read(t, store, whole); l.Chosen == nil || l.Chosen.ID != "b" {
		t.Errorf("%+v", l)
	}
	buckettest.ClaimFor(t, store, "8-g0", repository.Writer{UID: "v", Namespace: "prod", Name: "shop"})
	for name, q := range map[string]Question{"the whole": whole, "a name": {Cluster: "shop", Namespace: "elsewhere"}} {
		_, err := Read(t.Context(), store, q, time.Now)
		if !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "demo/shop (lineages/7-g0), prod/shop (lineages/8-g0)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l := read(t, store, Question{Cluster: "shop", Namespace: "demo"}); l.Name != "7-g0" {
		t.Errorf("that of our namespace: %s", l.Name)
	}
	if _, err := Read(t.Context(), mem.New(), whole, time.Now); !errors.Is(err, ErrNotThere) {
		t.Errorf("an empty bucket: %v", err)
	}
}

func TestPathsAreReadAsTheyLieInTheBucket(t *testing.T) {
	for path, want := range map[string][2]string{
		"":                                      {},
		"7-g0":                                  {"7-g0"},
		"lineages/7-g0":                         {"7-g0"},
		"lineages/7-g0/":                        {"7-g0"},
		"lineages/7-g0/backups/b":               {"7-g0", "b"},
		"7-g0/backups/b.1/":                     {"7-g0", "b.1"},
		"lineages/7-g0/backups/b/manifest.zst":  {"7-g0", "b"},
		"lineages/7-g0/backups/b/manifest.zst/": {"7-g0", "b"},
	} {
		lineage, id := ParsePath(path)
		if got := [2]string{lineage, id}; got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	f.Add("lineages/7-g0/backups/b/manifest.zst")
	f.Add("7-g0/")
	f.Fuzz(func(t *testing.T, path string) {
		lineage, id := ParsePath(path)
		if repository.CheckName("lineage", lineage) != nil || repository.CheckName("backup", id) != nil {
			return
		}
		if l, b := ParsePath(repository.ManifestKey(lineage, id)); l != lineage || b != id {
			t.Errorf("%q is %q and %q, then %q and %q", path, lineage, id, l, b)
		}
	})
}

func TestTheLineageThatWasWrittenLastGoesFirstWhereNobodyKnowsMore(t *testing.T) {
	backupAt := func(at time.Time) []*backup.Head { return []*backup.Head{{StopTime: at}} }
	last := clock(12, 30)
	for name, test := range map[string]struct {
		lineages []Lineage
		want     string
	}{
		"a cluster that was restored": {[]Lineage{{Name: "new", Created: clock(12, 10), Heads: backupAt(clock(12, 11))}, {Name: "old", Heads: backupAt(clock(12, 5))}}, "new"},
		"and that was undone":         {[]Lineage{{Name: "new", Created: clock(12, 10), Heads: backupAt(clock(12, 11))}, {Name: "old", Heads: backupAt(clock(12, 5)), Reach: Reach{LastCommit: &last}}}, "old"},
		"and backed up since":         {[]Lineage{{Name: "new", Created: clock(12, 10)}, {Name: "old", Heads: backupAt(clock(12, 20))}}, "old"},
	} {
		if latestFirst(test.lineages); test.lineages[0].Name != test.want {
			t.Errorf("%s: %s goes first", name, test.lineages[0].Name)
		}
	}
}
