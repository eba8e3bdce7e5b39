package catalogue

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func entry(id string, hours int, lonely bool) Entry {
	return Entry{Lineage: "7-g1", Lonely: lonely, Backup: inventory.Backup{ID: id, Cluster: "shop", Stopped: at.Add(time.Duration(hours) * time.Hour)}}
}

func repo(change func(*v1alpha1.BackupRepositorySpec)) *v1alpha1.BackupRepository {
	r := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio"}}
	change(&r.Spec)
	return r
}

func TestWhichBackupsAreShown(t *testing.T) {
	entries := []Entry{entry("mine", 1, false), entry("left", 2, true)}
	planned := v1alpha1.Backup{Status: v1alpha1.BackupStatus{Plan: &v1alpha1.BackupPlan{Repository: "minio", Lineage: "7-g1", ID: "left"}}}
	byHand := v1alpha1.Backup{Spec: v1alpha1.BackupSpec{Found: &v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "left"}}}
	ours := *byHand.DeepCopy()
	ours.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	ours.Status.Plan = planned.Status.Plan
	for name, test := range map[string]struct {
		change func(*v1alpha1.BackupRepositorySpec)
		there  []v1alpha1.Backup
		want   string
	}{
		"those that were left":             {func(*v1alpha1.BackupRepositorySpec) {}, nil, "left "},
		"not one that a Backup has made":   {func(*v1alpha1.BackupRepositorySpec) {}, []v1alpha1.Backup{planned}, ""},
		"not one that somebody else shows": {func(*v1alpha1.BackupRepositorySpec) {}, []v1alpha1.Backup{byHand}, ""},
		"one that is shown already":        {func(*v1alpha1.BackupRepositorySpec) {}, []v1alpha1.Backup{ours}, "left "},
		"all of a read-only one":           {func(s *v1alpha1.BackupRepositorySpec) { s.ReadOnly = true }, nil, "left mine "},
		"all":                              {func(s *v1alpha1.BackupRepositorySpec) { s.Catalogue = v1alpha1.CatalogueAll }, nil, "left mine "},
		"none": {func(s *v1alpha1.BackupRepositorySpec) {
			s.Catalogue, s.ReadOnly = v1alpha1.CatalogueOff, true
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			wanted, more := Choose(repo(test.change), entries, test.there, nil)
			got := ""
			for _, id := range []string{"left", "mine"} {
				if _, ok := wanted[v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: id}]; ok {
					got += id + " "
				}
			}
			if got != test.want || more != 0 {
				t.Errorf("got %q and %d more", got, more)
			}
		})
	}
}

func TestOfTooManyTheNewestAreShown(t *testing.T) {
	var entries []Entry
	for i := range most + 7 {
		entries = append(entries, entry(fmt.Sprint(i), i, true))
	}
	wanted, more := Choose(repo(func(*v1alpha1.BackupRepositorySpec) {}), entries, nil, nil)
	_, oldest := wanted[v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "6"}]
	_, newer := wanted[v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "7"}]
	if len(wanted) != most || more != 7 || oldest || !newer {
		t.Errorf("%d are shown, %d are not; the seventh %t, the eighth %t", len(wanted), more, oldest, newer)
	}
	first := v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "0"}
	wanted, more = Choose(repo(func(*v1alpha1.BackupRepositorySpec) {}), entries, nil, map[v1alpha1.FoundBackup]bool{first: true})
	if _, shown := wanted[first]; len(wanted) != most+1 || more != 6 || !shown {
		t.Errorf("with one that is to be deleted %d are shown, %d are not; itself %t", len(wanted), more, shown)
	}
}

// TestABackupThatGoesKeepsItsObject while others come to go, and while nobody knows yet which go: whoever sees it can hold it.
func TestABackupThatGoesKeepsItsObject(t *testing.T) {
	var entries []Entry
	for i := range 3*most + 1 {
		entries = append(entries, entry(fmt.Sprintf("b%03d", i), i, true))
	}
	where := func(id int) v1alpha1.FoundBackup {
		return v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: fmt.Sprintf("b%03d", id)}
	}
	place := where(0)
	oldest := v1alpha1.Backup{Spec: v1alpha1.BackupSpec{Found: &place}}
	oldest.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	others := map[v1alpha1.FoundBackup]bool{}
	for i := range most {
		others[where(most+i)] = true
	}
	for name, test := range map[string]struct {
		goes, known, stays bool
	}{
		"it goes, as others do":     {true, true, true},
		"others go, and it doesn't": {false, true, false},
		"nobody knows what goes":    {false, false, true},
	} {
		going := map[v1alpha1.FoundBackup]bool(nil)
		if test.known {
			going = maps.Clone(others)
			going[place] = test.goes
		}
		wanted, _ := Choose(repo(func(*v1alpha1.BackupRepositorySpec) {}), entries, []v1alpha1.Backup{oldest}, going)
		_, stays := wanted[place]
		_, other := wanted[where(most)]
		if stays != test.stays || other != test.known {
			t.Errorf("%s: it keeps its object %t, another gets one %t", name, stays, other)
		}
	}
}

// TestAHoldThatWasSetMeanwhileIsNotLostWithItsBackup that has no place in the catalogue any more.
func TestAHoldThatWasSetMeanwhileIsNotLostWithItsBackup(t *testing.T) {
	place := v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "gone"}
	api := fakeapi.New(object(repo(func(*v1alpha1.BackupRepositorySpec) {}), place, entry("gone", 0, true)))
	there := &v1alpha1.BackupList{}
	sync := func() {
		t.Helper()
		if _, err := Sync(t.Context(), api, repo(func(*v1alpha1.BackupRepositorySpec) {}), nil, there.Items, map[v1alpha1.FoundBackup]bool{}); err != nil {
			t.Fatal(err)
		}
	}
	left := func() *v1alpha1.BackupList {
		t.Helper()
		list := &v1alpha1.BackupList{}
		if err := api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	there = left()
	held := there.Items[0].DeepCopy()
	held.Spec.Hold = true
	if err := api.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if sync(); len(left().Items) != 1 {
		t.Fatal("it is gone, with its hold")
	}
	held.Spec.Hold = false
	if err := api.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	there = left()
	if sync(); len(left().Items) != 0 {
		t.Error("it stays, though nobody holds it")
	}
}

// TestACopiedBucketHasObjectsOfItsOwn beside those of the original, and what has an object from earlier keeps its name.
func TestACopiedBucketHasObjectsOfItsOwn(t *testing.T) {
	original, copied := repo(func(*v1alpha1.BackupRepositorySpec) {}), repo(func(*v1alpha1.BackupRepositorySpec) {})
	copied.Name = "copy"
	earlier := object(original, v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "b1"}, entry("b1", 0, true))
	earlier.Name = "shop-20260304t050607z-b4c407b8"
	api := fakeapi.New(earlier)
	list := &v1alpha1.BackupList{}
	for range 2 {
		for _, repository := range []*v1alpha1.BackupRepository{original, copied} {
			if err := api.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			if _, err := Sync(t.Context(), api, repository, []Entry{entry("b1", 0, true), entry("b2", 1, true)}, list.Items, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, b := range list.Items {
		found[b.Spec.Found.Repository+"/"+b.Spec.Found.ID] = b.Name
	}
	if len(list.Items) != 4 || len(found) != 4 || found["minio/b1"] != earlier.Name || found["copy/b1"] == earlier.Name {
		t.Errorf("%d objects: %v", len(list.Items), found)
	}
}

// Whoever can write to a bucket can try IDs until a backup gets the name of another. Of a name of 32 bits they need seconds.
func TestANameHasTooManyBitsToFindAnIDThatGetsIt(t *testing.T) {
	seen := map[string]string{}
	for i := range 300_000 { // of 32 bits, ten pairs would be the same
		id := fmt.Sprint("b", i)
		name := Name("minio", entry(id, 0, true))
		if seen[name] != "" {
			t.Fatalf("%s and %s are %s", seen[name], id, name)
		}
		seen[name] = id
	}
}

// TestAnObjectOfAnotherBackupIsNotTakenForThatOfThisOne, whoever has given it this name.
func TestAnObjectOfAnotherBackupIsNotTakenForThatOfThisOne(t *testing.T) {
	minio := repo(func(*v1alpha1.BackupRepositorySpec) {})
	other := object(minio, v1alpha1.FoundBackup{Repository: "minio", Lineage: "7-g1", ID: "other"}, entry("b1", 0, true))
	byHand := other.DeepCopy()
	byHand.Spec.Found, byHand.Labels = nil, nil
	for name, taken := range map[string]*v1alpha1.Backup{"it was found": other, "it was created by hand": byHand} {
		api := fakeapi.New(taken.DeepCopy())
		there := &v1alpha1.BackupList{}
		if err := api.List(t.Context(), there); err != nil {
			t.Fatal(err)
		}
		said, err := Sync(t.Context(), api, minio, []Entry{entry("b1", 0, true), entry("other", 0, true)}, there.Items, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := "Backup " + taken.Name + " has the name that the Backup of backup b1 in lineage 7-g1 needs, but belongs to another backup. Delete Backup " + taken.Name +
			" with spec.deletionPolicy: Retain, and create it again under another name."
		if !strings.Contains(said, want) || strings.Contains(said, "All of them") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

func TestNamesCanBeReadAndAreAlwaysTheSameAndShortEnough(t *testing.T) {
	if got := Name("minio", entry("b1", 0, true)); got != "shop-20260304t050607z-hmumhvojkawkmybe" {
		t.Errorf("got %s", got)
	}
	for _, cluster := range []string{"", "a", "Evil!", "ünï", "-a", strings.Repeat("a", 300), "a-cluster-with-a-name-that-is-far.too-long-for-anybody-to-read"} {
		e := entry("b1", 0, true)
		e.Cluster = cluster
		if name := Name("minio", e); len(name) > 56 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("%q makes %q", cluster, name)
		}
		made := object(&v1alpha1.BackupRepository{}, v1alpha1.FoundBackup{}, e)
		if name := made.Spec.Cluster.Name; len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("%q makes a Backup of cluster %q", cluster, name)
		}
	}
}
