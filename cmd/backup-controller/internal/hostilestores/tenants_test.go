package hostilestores

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"howdah.dev/apis/v1alpha1"
	engine "howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/repostore/location"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// The tenant names the bucket of cluster shop in namespace prod, which was written to nine days ago and has been known for forty.
const (
	tenant    = "tenant"
	victims   = "7-g1"
	victimUID = "uid-of-shop"
	all       = "ago20 ago40 ago9"
)

// writtenBy is the bucket.
func writtenBy(t *testing.T, namespace string) objstore.Store {
	written := false
	store := mem.NewAt(func() time.Time {
		if written {
			return time.Now()
		}
		return time.Now().Add(-9 * 24 * time.Hour)
	})
	const size = 1 << 20
	dir := t.TempDir()
	must(t, errors.Join(os.MkdirAll(filepath.Join(dir, "global"), 0o700), os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "global/pg_control"), make([]byte, 8192), 0o600)))
	_, err := layout.Ensure(t.Context(), store, time.Now())
	must(t, err)
	for number, id := range []string{"ago40", "ago20", "ago9"} {
		at, begin := time.Now().Add(-time.Duration([]int{40, 20, 9}[number])*24*time.Hour), postgres.LSN(10+number)*size
		_, err := layout.Claim(t.Context(), store, layout.Lineage{
			Lineage: victims, Writer: layout.Writer{UID: victimUID, Namespace: namespace, Name: "shop"}, SegmentSize: size, Created: at,
		})
		must(t, err)
		must(t, wal.New(store).Put(t.Context(), victims, postgres.SegmentOf(1, begin, size).Name(), []byte(id), wal.Info{Writer: "test"}))
		_, err = engine.Write(t.Context(), store, engine.Source{
			DataDir: dir, Lineage: victims, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: size,
			Cluster: engine.Cluster{Namespace: namespace, Name: "shop", UID: victimUID},
			Start: func(context.Context) (engine.Started, error) {
				return engine.Started{LSN: begin + 40, Timeline: 1, Time: at}, nil
			},
			Stop: func(context.Context) (engine.Stopped, error) {
				return engine.Stopped{LSN: begin + 100, Time: at, BackupLabel: "x"}, nil
			},
		}, engine.Options{ID: id})
		must(t, err)
	}
	written = true
	return store
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func clusterOf(namespace, name string, uid types.UID) *v1alpha1.PostgresCluster {
	c := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
	c.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
	c.Status.SystemIdentifier, c.Status.DataGeneration = "7", "g2"
	return c
}

// renamed is the cluster that has taken over the victim's volumes, in its namespace.
func renamed() *v1alpha1.PostgresCluster {
	c := clusterOf("prod", "store", "uid-of-store")
	c.Status.Identity = victimUID
	return c
}

// takenOver is a cluster of the tenant that says it has taken over the volumes of the victim's.
func takenOver() *v1alpha1.PostgresCluster {
	c := clusterOf(tenant, "mine", "uid-of-mine")
	c.Status.Identity = victimUID
	return c
}

// neighbour is a backup-controller, with what the tenant has.
type neighbour struct{ *lab }

// newNeighbour makes one that may not read clusters in namespace prod, if an error is given.
func newNeighbour(t *testing.T, open repostore.Opener, rights error, clusters ...client.Object) *neighbour {
	last, seen := int32(1), metav1.NewTime(time.Now().Add(-40*24*time.Hour))
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "minio", UID: "uid-of-minio", Generation: 1}}
	repo.Spec.S3.Bucket = "backups"
	repo.Spec.Retention = &v1alpha1.RetentionSpec{KeepLast: &last, KeepWithin: "1d", NoticePeriod: &metav1.Duration{}}
	repo.Status.Lineages = []v1alpha1.LineageStatus{{Name: victims, FirstSeen: &seen}}
	found := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "found", UID: "uid-of-found"}}
	found.Spec.DeletionPolicy, found.Spec.Found = v1alpha1.BackupDelete, &v1alpha1.FoundBackup{Repository: "minio", Lineage: victims, ID: "ago9"}
	api := fakeapi.New(append(clusters, repo, found, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "x"}})...)
	live := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, cluster := object.(*v1alpha1.PostgresCluster); cluster && key.Namespace == "prod" && rights != nil {
				return rights
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	return &neighbour{newLabOf(t, api, live, open)}
}

// passes are a few.
func (n *neighbour) passes() (about said) {
	for range 6 {
		about = n.pass(tenant)
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
	}
	return about
}

// work continues until retention has run, and the Backup that was found was deleted or is not going to be.
func (n *neighbour) work() (repo *v1alpha1.BackupRepository, about said) {
	n.passes()
	repo, found := &v1alpha1.BackupRepository{}, &v1alpha1.Backup{}
	must(n.T, n.api.Get(n.Context(), types.NamespacedName{Namespace: tenant, Name: "minio"}, repo))
	if n.api.Get(n.Context(), types.NamespacedName{Namespace: tenant, Name: "found"}, found) == nil && found.DeletionTimestamp.IsZero() {
		must(n.T, n.api.Delete(n.Context(), found))
	}
	return repo, n.passes()
}

func TestATenantRemovesNothingOfAClusterThatItsControllerCanNotReadOrThatItClaims(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("postgresclusters").GroupResource()
	forbidden := apierrors.NewForbidden(resource, "shop", errors.New("watchNamespaces"))
	for name, test := range map[string]struct {
		rights   error
		clusters []client.Object
		says     string // why nothing is removed; empty: what the rule allows is removed
	}{
		"the writer can't be read":        {forbidden, nil, "may belong to cluster prod/shop (UID uid-of-shop), which the backup-controller is not allowed to read"},
		"the writer is there":             {nil, []client.Object{clusterOf("prod", "shop", victimUID)}, "belongs to PostgresCluster prod/shop"},
		"the tenant claims to be it":      {nil, []client.Object{clusterOf("prod", "shop", victimUID), takenOver()}, "belongs to PostgresCluster prod/shop"},
		"the writer has another name":     {nil, []client.Object{renamed(), takenOver()}, "belongs to PostgresCluster prod/store"},
		"the writer was looked for":       {nil, nil, ""},
		"the tenant has taken it over":    {nil, []client.Object{takenOver()}, ""},
		"the name is another cluster now": {nil, []client.Object{clusterOf("prod", "shop", "another"), takenOver()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := writtenBy(t, "prod")
				n := newNeighbour(t, func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
					return store, nil
				}, test.rights, test.clusters...)
				repo, about := n.work()
				left := ids(t, store)
				if test.says == "" {
					if left == all {
						t.Errorf("nothing is removed: %+v, %+v", repo.Status.Retention, about)
					}
					return
				}
				if retention := repo.Status.Retention; left != all || retention == nil || retention.LastRun == nil || !strings.Contains(retention.Message, test.says) {
					t.Errorf("%s stay: %+v", left, retention)
				}
				if !strings.Contains(about.Found, v1alpha1.ReasonDeletionBlocked) || !strings.Contains(about.Found, test.says) {
					t.Errorf("the Backup that was found says %q", about.Found)
				}
			})
		})
	}
}

func ids(t *testing.T, store objstore.Store) string {
	entries, err := engine.List(t.Context(), store, victims)
	must(t, err)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return strings.Join(ids, " ")
}

// TestATenantWithoutAGrantGetsNothingByTheIdentityOfTheController, in any of the things that the controllers do for it.
func TestATenantWithoutAGrantGetsNothingByTheIdentityOfTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNeighbour(t, repostore.Opening(location.Grants{{Namespace: "prod", Bucket: "backups"}}), nil)
		about := n.passes()
		repo := &v1alpha1.BackupRepository{}
		must(t, n.api.Get(t.Context(), types.NamespacedName{Namespace: tenant, Name: "minio"}, repo))
		for _, text := range []string{about.Ready, about.Found} {
			if !strings.Contains(text, "cloudIdentity.grants") {
				t.Errorf("it says %q", text)
			}
		}
		if !strings.HasPrefix(about.Ready, "False "+v1alpha1.ReasonAccessDenied) || repo.Status.LastInventoryTime != nil || len(repo.Status.Lineages) != 1 {
			t.Errorf("%s; %+v", about.Ready, repo.Status)
		}
	})
}
