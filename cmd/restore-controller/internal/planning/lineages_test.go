package planning

import (
	"errors"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// read is the backup that is chosen for the end of the archive, with its lineage.
func read(t *testing.T, store *mem.Store, q Question) *backup.Header {
	t.Helper()
	report, err := Read(t.Context(), store, q, func() time.Time { return buckettest.Minute(60) })
	if err != nil {
		t.Fatal(err)
	}
	v := pitr.Decide(report.Candidates, q.Target, pitr.Facts{Now: buckettest.Minute(60)})
	if v.Code != pitr.Reachable {
		t.Fatalf("%+v", v)
	}
	header, err := backup.ReadOutline(t.Context(), store, v.Candidate.Lineage, v.Candidate.Reach.Backup.ID)
	if err != nil {
		t.Fatal(err)
	}
	return header
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

// A cluster that was deleted and created again under its name has archived nothing yet, and somebody wants the data of the former one.
func TestAFormerClusterOfTheNameIsNamed(t *testing.T) {
	store := buckettest.New(t, 4)
	_, err := Read(t.Context(), store, Question{Cluster: "shop", Namespace: "demo", ClusterUID: "v"}, time.Now)
	if !errors.Is(err, ErrNotThere) || !strings.Contains(err.Error(), "an earlier one with the same name; to restore that, write its path in spec.source.repository.path: lineages/7-g0") {
		t.Error(err)
	}
	_, err = Read(t.Context(), store, Question{Cluster: "shop", Namespace: "elsewhere", ClusterUID: "v"}, time.Now)
	if !errors.Is(err, ErrNotThere) || strings.Contains(err.Error(), "7-g0") {
		t.Errorf("one of another namespace: %v", err)
	}
}

func TestOneClusterIsMeantOrItIsSaidWhichThereAre(t *testing.T) {
	store := buckettest.New(t, 4)
	whole := Question{Namespace: "elsewhere"}
	if header := read(t, store, whole); header.ID != "b" {
		t.Errorf("%+v", header)
	}
	buckettest.ClaimFor(t, store, "8-g0", layout.Writer{UID: "v", Namespace: "prod", Name: "shop"})
	for name, q := range map[string]Question{"the whole": whole, "a name": {Cluster: "shop", Namespace: "elsewhere"}} {
		_, err := Read(t.Context(), store, q, time.Now)
		if !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), "demo/shop (lineages/7-g0), prod/shop (lineages/8-g0)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if header := read(t, store, Question{Cluster: "shop", Namespace: "demo"}); header.Lineage != "7-g0" {
		t.Errorf("that of our namespace: %s", header.Lineage)
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
		if layout.CheckName("lineage", lineage) != nil || layout.CheckName("backup", id) != nil {
			return
		}
		if l, b := ParsePath(layout.ManifestKey(lineage, id)); l != lineage || b != id {
			t.Errorf("%q is %q and %q, then %q and %q", path, lineage, id, l, b)
		}
	})
}

// TestADamagedLineageIsInTheWayOnlyOfItsOwnCluster: the newest data of that may be in it.
func TestADamagedLineageIsInTheWayOnlyOfItsOwnCluster(t *testing.T) {
	for name, damage := range map[string]func(*mem.Store, string) error{
		"damaged": func(s *mem.Store, key string) error {
			return s.Put(t.Context(), key, []byte("{"), objstore.PutOptions{})
		},
		"missing": func(s *mem.Store, key string) error { return s.Delete(t.Context(), key) },
	} {
		t.Run(name, func(t *testing.T) {
			store := buckettest.New(t, 4)
			buckettest.ClaimFor(t, store, "8-g0", layout.Writer{UID: "v", Namespace: "demo", Name: "till"})
			if err := damage(store, layout.LineageKey("8-g0")); err != nil {
				t.Fatal(err)
			}
			question := Question{Cluster: "shop", Namespace: "demo", ClusterUID: "u"}
			if header := read(t, store, question); header.ID != "b" {
				t.Errorf("%+v", header)
			}
			buckettest.Claim(t, store, "7-g1", buckettest.Minute(1))
			if err := damage(store, layout.LineageKey(buckettest.Lineage)); err != nil {
				t.Fatal(err)
			}
			for _, q := range []Question{question, {Cluster: "shop", Namespace: "elsewhere"}, {Namespace: "demo"}} {
				_, err := Read(t.Context(), store, q, time.Now)
				if err == nil || !strings.Contains(err.Error(), layout.LineageKey(buckettest.Lineage)) || !strings.Contains(err.Error(), "spec.source.repository.path") {
					t.Errorf("%+v: %v", q, err)
				}
			}
			if _, err := Read(t.Context(), store, Question{Lineage: "7-g1", Namespace: "demo"}, time.Now); err != nil {
				t.Errorf("the other lineage by its path: %v", err)
			}
		})
	}
}
