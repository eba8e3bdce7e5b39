package retention

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	for name, test := range map[string]struct {
		cluster *v1alpha1.PostgresCluster
		written time.Duration // ago
		want    owner
	}{
		"of a cluster that is here":                 {cluster("demo", nil), 0, living},
		"of one that has not begun":                 {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Status.SystemIdentifier = "" }), 0, living},
		"of one that has other data since":          {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Status.DataGeneration = "g2" }), 0, past},
		"of one that archives elsewhere since":      {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.Spec.Archive.Repository.Name = "other" }), 0, past},
		"of one that only wants to go elsewhere":    {cluster("demo", leaving), 0, living},
		"of a cluster in another namespace":         {cluster("prod", nil), 0, elsewhere},
		"of nobody here, written an hour ago":       {nil, time.Hour, unknown},
		"of nobody here, not written for two days":  {nil, 48 * time.Hour, gone},
		"of another cluster of the name, long gone": {cluster("demo", func(c *v1alpha1.PostgresCluster) { c.UID = "u2" }), 48 * time.Hour, gone},
	} {
		t.Run(name, func(t *testing.T) {
			f := &facts{ns: "demo", repo: "minio", clusters: map[string]*v1alpha1.PostgresCluster{}}
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
