package retention

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/objstore"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func TestPeriodsAreReadAndWhatCanNotBeReadRemovesNothing(t *testing.T) {
	for text, want := range map[v1alpha1.RetentionPeriod]time.Duration{
		"": 0, "36h": 36 * time.Hour, "7d": 7 * 24 * time.Hour, "12w": 12 * 7 * 24 * time.Hour,
	} {
		if got := period(text); got != want {
			t.Errorf("%q is %s", text, got)
		}
	}
	for _, text := range []v1alpha1.RetentionPeriod{"d", "7", "7m", "-1d", "99999w"} {
		if got := period(text); got < 100*365*24*time.Hour {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func cluster(namespace string, change func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	c := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop", UID: "u1"}}
	c.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
	c.Status.SystemIdentifier, c.Status.DataGeneration = "7", "g1"
	if change != nil {
		change(c)
	}
	return c
}

func TestWhoseALineageIs(t *testing.T) {
	const days = 24 * time.Hour
	for name, test := range map[string]struct {
		cluster       *v1alpha1.PostgresCluster
		written, seen time.Duration // ago
		hidden        string
		want          owner
	}{
		"of a cluster that is here":                  {cluster("demo", nil), 0, 0, "", living},
		"of one that has not begun":                  {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Status.SystemIdentifier = "" }), 0, 0, "", living},
		"of one that has other data since":           {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Status.DataGeneration = "g2" }), 0, 0, "", past},
		"of one that archives elsewhere since":       {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Spec.Archive.Repository.Name = "other" }), 0, 0, "", past},
		"of one that only wants to go elsewhere":     {cluster("demo", leaving), 0, 0, "", living},
		"of a cluster in another namespace":          {cluster("prod", nil), 9 * days, 9 * days, "", elsewhere},
		"of nobody here, written an hour ago":        {nil, time.Hour, 9 * days, "", unknown},
		"of nobody here, not written for two days":   {nil, 2 * days, 9 * days, "", gone},
		"of nobody here, first seen an hour ago":     {nil, 30 * days, time.Hour, "", unknown},
		"of nobody here, first seen in the future":   {nil, 30 * days, -time.Hour, "", unknown},
		"of another cluster of the name, long gone":  {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.UID = "u2" }), 2 * days, 2 * days, "", gone},
		"of one that could not be looked for":        {nil, 30 * days, 30 * days, "which nobody may look for", unknown},
		"of one that was found without being looked": {cluster("demo", nil), 30 * days, 30 * days, "of no name", living},
	} {
		t.Run(name, func(t *testing.T) {
			f := &facts{
				ns: "demo", repo: "minio", clusters: map[string]*v1alpha1.PostgresCluster{}, hidden: map[string]string{"u1": test.hidden},
				seen: map[string]time.Time{"7-g1": now.Add(-test.seen)},
			}
			if test.cluster != nil {
				f.clusters[string(test.cluster.UID)] = test.cluster
			}
			l := &inventory.Lineage{
				Lineage:     repository.Lineage{Lineage: "7-g1", Writer: repository.Writer{UID: "u1", Namespace: "demo", Name: "shop"}},
				LastWritten: now.Add(-test.written),
			}
			got, why := f.owner(l, now)
			if got != test.want || (why != "") != (got == elsewhere || got == unknown) {
				t.Errorf("got %d, %q", got, why)
			}
		})
	}
}

// answering is an API server that answers every question for a cluster with one error.
type answering struct {
	client.Reader
	err error
}

func (a answering) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.err
}

// TestOnlyAWriterThatWasLookedForCanBeGone: who may not be looked for, or has no name, is somebody else.
func TestOnlyAWriterThatWasLookedForCanBeGone(t *testing.T) {
	clusters := v1alpha1.GroupVersion.WithResource("postgresclusters").GroupResource()
	forbidden, notFound := apierrors.NewForbidden(clusters, "shop", errors.New("no")), apierrors.NewNotFound(clusters, "shop")
	for name, test := range map[string]struct {
		writer repository.Writer
		answer error
		hidden bool
	}{
		"it is not there":         {repository.Writer{UID: "u1", Namespace: "prod", Name: "shop"}, notFound, false},
		"it may not be asked for": {repository.Writer{UID: "u1", Namespace: "prod", Name: "shop"}, forbidden, true},
		"it has no name":          {repository.Writer{UID: "u1", Namespace: "demo"}, notFound, true},
		"it has no namespace":     {repository.Writer{UID: "u1", Name: "shop"}, notFound, true},
		"it is of this namespace": {repository.Writer{UID: "u1", Namespace: "demo", Name: "shop"}, forbidden, false},
	} {
		f := &facts{ns: "demo", clusters: map[string]*v1alpha1.PostgresCluster{}, hidden: map[string]string{}}
		if err := f.lookFor(t.Context(), answering{err: test.answer}, test.writer); err != nil || (f.hidden["u1"] != "") != test.hidden {
			t.Errorf("%s: %v, %v", name, f.hidden, err)
		}
	}
	f := &facts{ns: "demo", hidden: map[string]string{}}
	err := f.lookFor(t.Context(), answering{err: errors.New("it is away")}, repository.Writer{UID: "u1", Namespace: "prod", Name: "shop"})
	if err == nil || !strings.Contains(err.Error(), "prod/shop: it is away") {
		t.Errorf("an API server that doesn't answer: %v", err)
	}
}

func TestSinceWhenALineageIsKnownIsRemembered(t *testing.T) {
	repo := &v1alpha1.BackupRepository{}
	recorded := func(ago time.Duration) {
		repo.Status.Lineages = []v1alpha1.LineageStatus{{Name: "listed", FirstSeen: stamp(now.Add(-ago))}}
	}
	remembered := &memory{}
	look := func(at time.Time, want ...time.Duration) {
		t.Helper()
		r := &run{memory: remembered, repo: repo, now: at, facts: &facts{}}
		for i, name := range []string{"listed", "unlisted"}[:len(want)] {
			r.lineages = append(r.lineages, inventory.Lineage{Lineage: repository.Lineage{Lineage: name}})
			defer func() {
				if got := at.Sub(r.facts.seen[name]); got != want[i] {
					t.Errorf("%s is known for %s, and should be for %s", name, got, want[i])
				}
			}()
		}
		r.remember()
	}
	look(now, 0, 0)
	recorded(5 * time.Hour)
	look(now.Add(time.Hour), 6*time.Hour, time.Hour)
	repo.Status = v1alpha1.BackupRepositoryStatus{}
	look(now.Add(2*time.Hour), 7*time.Hour, 2*time.Hour)
	look(now.Add(3*time.Hour), 8*time.Hour)
	look(now.Add(4*time.Hour), 9*time.Hour, 0) // it was away meanwhile
	remembered = &memory{}
	look(now.Add(5*time.Hour), 0, 0)
	recorded(-99 * time.Hour)
	look(now.Add(6*time.Hour), time.Hour, time.Hour)
}

func leaving(c *v1alpha1.PostgresCluster) {
	c.Spec.Archive.Repository.Name = "other"
	c.Status.Archive = &v1alpha1.ArchiveStatus{Repository: "minio"}
}

func TestALookThatFailsLeavesWhatIsKnownAndSaysWhy(t *testing.T) {
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{UID: types.UID("r")}}
	last := int32(1)
	repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last}
	explain := func(err error) string { return err.Error() + "." }
	Result{Began: now, Backups: 3, wouldCount: 1, wouldRemove: []string{"a/b"}, removed: removed{backups: 1}}.Report(repo, explain)
	Result{Began: now.Add(time.Hour), Err: errors.New("it is away")}.Report(repo, explain)
	status := repo.Status
	if status.Backups != 3 || !status.LastInventoryTime.Time.Equal(now) || !strings.Contains(status.InventoryError, "it is away.") {
		t.Errorf("got %+v", status)
	}
	if r := status.Retention; r.RemovedBackups != 1 || !r.LastRun.Time.Equal(now) || len(r.WouldRemove) != 1 || !r.NextRun.Time.Equal(now.Add(time.Hour+Interval)) {
		t.Errorf("got %+v", r)
	}
	repo.Spec.Retention = nil
	if (Result{Began: now}).Report(repo, explain); repo.Status.Retention != nil || repo.Status.InventoryError != "" {
		t.Errorf("got %+v", repo.Status)
	}
}

func TestWhatABucketKeepsIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		kept objstore.Kept
		want *v1alpha1.KeptStatus
	}{
		"nothing":  {objstore.Kept{}, nil},
		"versions": {objstore.Kept{Versions: true, Objects: 2, Bytes: 30}, &v1alpha1.KeptStatus{Objects: 2, Bytes: 30}},
		"a lock": {
			objstore.Kept{Versions: true, LockMode: "GOVERNANCE", LockFor: 365 * 24 * time.Hour}, &v1alpha1.KeptStatus{ObjectLock: "GOVERNANCE for 365 days"},
		},
	} {
		if got := describeKept(test.kept); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
