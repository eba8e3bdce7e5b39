package pruning

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

const segmentSize = postgres.MinSegSize

// bucket is the repository minio of the cluster shop, which writes lineage 7-g1. Each segment is a day.
type bucket struct {
	*testing.T
	*mem.Store
	api   client.WithWatch
	repo  *v1alpha1.BackupRepository
	clock time.Time // of the store
}

func newBucket(t *testing.T, policy v1alpha1.RetentionSpec) *bucket {
	t.Helper()
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop", UID: "u1"}}
	cluster.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}}
	cluster.Status.SystemIdentifier, cluster.Status.DataGeneration = "7", "g1"
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio", UID: "r"}}
	repo.Spec.Retention = &policy
	b := &bucket{T: t, api: fakeapi.New(cluster, repo), repo: repo, clock: now}
	b.Store = mem.NewAt(func() time.Time { return b.clock })
	b.claim("7-g1")
	return b
}

func (b *bucket) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bucket) claim(lineage string) {
	b.Helper()
	_, err := layout.Claim(b.Context(), b, layout.Lineage{
		Lineage: lineage, Writer: layout.Writer{UID: "u1", Namespace: "demo", Name: "shop"}, SegmentSize: segmentSize, Created: at(0),
	})
	b.must(err)
}

// at is a day of these tests. It is now on day 9.
func at(day uint64) time.Time { return now.Add((time.Duration(day) - 9) * 24 * time.Hour) }

// fill archives the segments of nine days, and takes backups on some of them.
func (b *bucket) fill(lineage string, backups ...uint64) {
	b.Helper()
	for n := uint64(1); n <= 9; n++ {
		name, commit := postgres.Segment{Timeline: 1, Number: n, SegSize: segmentSize}.Name(), at(n)
		b.must(wal.New(b).Put(b.Context(), lineage, name, []byte(name), wal.Info{Writer: "test", LastCommit: &commit}))
	}
	for _, n := range backups {
		dir := b.TempDir()
		b.must(errors.Join(
			os.MkdirAll(filepath.Join(dir, "global"), 0o700), os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600),
			os.WriteFile(filepath.Join(dir, "global/pg_control"), []byte(strings.Repeat("c", 8192)), 0o600),
		))
		lsn := postgres.LSN(n * segmentSize)
		_, err := backup.Write(b.Context(), b, backup.Source{
			DataDir: dir, Lineage: lineage, SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: segmentSize,
			Cluster: backup.Cluster{Namespace: "demo", Name: "shop", UID: "u1"},
			Start: func(context.Context) (backup.Started, error) {
				return backup.Started{LSN: lsn + 40, Timeline: 1, Time: at(n)}, nil
			},
			Stop: func(context.Context) (backup.Stopped, error) {
				return backup.Stopped{LSN: lsn + 100, Time: at(n), BackupLabel: "x"}, nil
			},
		}, backup.Options{ID: fmt.Sprint("b", n)})
		b.must(err)
	}
}

// run looks at the repository with the memory of nothing, and writes what it found into the status.
func (b *bucket) run() v1alpha1.BackupRepositoryStatus {
	b.Helper()
	dependencies := manager.Dependencies{Client: b.api, Live: b.api, Events: silent{}, Now: func() time.Time { return now }}
	open := func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
		return b, nil
	}
	pruner := &Pruner{Dependencies: dependencies, Open: open, Deletions: &deletionlock.Locks{}}
	result := pruner.Run(b.Context(), b.repo, "")
	b.must(result.Err)
	result.Report(b.repo, error.Error)
	return b.repo.Status
}

func (b *bucket) backups(lineage string) string {
	b.Helper()
	ids, err := backup.IDs(b.Context(), b, lineage)
	b.must(err)
	return strings.Join(ids, " ")
}

func (b *bucket) segments(lineage string) (n int) {
	for range b.List(b.Context(), layout.TimelinePrefix(lineage, 1), "") {
		n++
	}
	return n
}

// losePacks deletes the packs of a backup, as a lifecycle rule of the bucket does.
func (b *bucket) losePacks(lineage, id string) {
	b.Helper()
	for info, err := range b.List(b.Context(), layout.BackupPacksPrefix(lineage, id), "") {
		b.must(errors.Join(err, b.Delete(b.Context(), info.Key)))
	}
}

// spoilList changes the end of a manifest, where the list of files is.
func (b *bucket) spoilList(lineage, id string) {
	b.Helper()
	key := layout.ManifestKey(lineage, id)
	body, err := b.Get(b.Context(), key, 1<<20)
	b.must(err)
	body[len(body)-1] ^= 1
	b.must(b.Put(b.Context(), key, body, objstore.PutOptions{}))
}

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// TestNothingIsRemovedBecauseOfABackupThatLacksPacks: the older ones are what can be restored then.
func TestNothingIsRemovedBecauseOfABackupThatLacksPacks(t *testing.T) {
	for name, test := range map[string]struct {
		policy v1alpha1.RetentionSpec
		lost   []string
		stays  string
		says   []string // nothing: it removes what no rule keeps
		would  string
	}{
		"all are complete":         {v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1)}, nil, "b8", nil, "7-g1/b2 7-g1/b4 7-g1/b6"},
		"the newest is incomplete": {v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1)}, []string{"b8"}, "b2 b4 b6 b8", []string{"b8.", "one is b6."}, "7-g1/b2 7-g1/b4"},
		"two are incomplete":       {v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1)}, []string{"b8", "b6"}, "b2 b4 b6 b8", []string{"b8, b6.", "one is b4."}, "7-g1/b2"},
		"all are incomplete": {v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1)}, []string{"b8", "b6", "b4", "b2"}, "b2 b4 b6 b8",
			[]string{"b8, b6, b4, b2.", "No other backup"}, ""},
		"one that no rule keeps is incomplete": {v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1)}, []string{"b4"}, "b8", nil, "7-g1/b2 7-g1/b4 7-g1/b6"},
		"the one that a window begins with":    {v1alpha1.RetentionSpec{RecoveryWindow: "2d"}, []string{"b6"}, "b2 b4 b6 b8", []string{"b6.", "one is b8."}, "7-g1/b2"},
	} {
		t.Run(name, func(t *testing.T) {
			test.policy.NoticePeriod = &metav1.Duration{}
			b := newBucket(t, test.policy)
			b.fill("7-g1", 2, 4, 6, 8)
			for _, id := range test.lost {
				b.losePacks("7-g1", id)
			}
			status := b.run()
			if got := b.backups("7-g1"); got != test.stays || test.says != nil && b.segments("7-g1") != 9 {
				t.Errorf("%s and %d segments stay", got, b.segments("7-g1"))
			}
			message := status.Retention.Message
			for _, words := range test.says {
				if !strings.Contains(message, words) {
					t.Errorf("%q isn't in %q", words, message)
				}
			}
			if test.says == nil && message != "" {
				t.Errorf("it says %q", message)
			}
			if got := strings.Join(status.Retention.WouldRemove, " "); got != test.would {
				t.Errorf("it would remove %q", got)
			}
		})
	}
}

func TestWhetherPacksAreThereIsAskedOnlyIfSomethingIsRemoved(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{RecoveryWindow: "30d", NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 1, 8)
	b.losePacks("7-g1", "b8")
	if status := b.run(); status.Retention.Message != "" || b.segments("7-g1") != 9 {
		t.Errorf("%q, and %d segments stay", status.Retention.Message, b.segments("7-g1"))
	}
}

// TestAPolicyThatRemovesOnlyWALIsShownBeforeItDoes: it takes away the way to most points in time.
func TestAPolicyThatRemovesOnlyWALIsShownBeforeItDoes(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepDaily: ptr.To[int32](30)})
	b.fill("7-g1", 2, 4, 6, 8)
	status := b.run()
	if r := status.Retention; r.WouldRemoveWAL != 4 || len(r.WouldRemove) > 0 || !strings.Contains(r.Message, "Nothing is removed from lineage 7-g1 before") {
		t.Errorf("%+v", r)
	}
	if b.segments("7-g1") != 9 {
		t.Errorf("%d segments stay", b.segments("7-g1"))
	}
	b.repo.Spec.Retention.NoticePeriod = &metav1.Duration{}
	if status = b.run(); b.segments("7-g1") != 5 || b.backups("7-g1") != "b2 b4 b6 b8" || status.Retention.RemovedWAL != 4 || status.Retention.Message != "" {
		t.Errorf("%d segments and backups %s stay; %+v", b.segments("7-g1"), b.backups("7-g1"), status.Retention)
	}
	if status = b.run(); status.Retention.WouldRemoveWAL != 0 {
		t.Errorf("%+v", status.Retention)
	}
}

// TestADamagedLineageIsNamedAndOnlyItStaysAsItIs while the others are kept as the policy says.
func TestADamagedLineageIsNamedAndOnlyItStaysAsItIs(t *testing.T) {
	history, claimed := layout.HistoryPrefix("8-g1")+"00000002.history", layout.ClaimKey("8-g1", "b9", "run")
	for name, damage := range map[string]func(*bucket) (key string){
		"lineage.json is damaged": func(b *bucket) string {
			b.must(b.Put(b.Context(), layout.LineageKey("8-g1"), []byte("{"), objstore.PutOptions{}))
			return layout.LineageKey("8-g1")
		},
		"lineage.json was deleted": func(b *bucket) string {
			b.must(b.Delete(b.Context(), layout.LineageKey("8-g1")))
			return layout.LineageKey("8-g1") + " is missing"
		},
		"the history of a timeline is damaged": func(b *bucket) string {
			b.must(b.Put(b.Context(), history, []byte("garbage"), objstore.PutOptions{}))
			return history
		},
		"a claim is damaged": func(b *bucket) string {
			b.must(b.Put(b.Context(), claimed, []byte("garbage"), objstore.PutOptions{}))
			return claimed
		},
		"a claim is too large": func(b *bucket) string {
			b.must(b.Put(b.Context(), claimed, make([]byte, 64<<20+1), objstore.PutOptions{}))
			return claimed
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
			b.claim("8-g1")
			b.claim("9-g1")
			b.fill("7-g1", 2, 4)
			b.fill("8-g1", 2, 4)
			b.fill("9-g1", 2, 4)
			key := damage(b)
			status := b.run()
			if got := b.backups("8-g1"); got != "b2 b4" || b.segments("8-g1") != 9 {
				t.Errorf("of the damaged lineage, %s and %d segments stay", got, b.segments("8-g1"))
			}
			if one, other := b.backups("7-g1"), b.backups("9-g1"); one != "b4" || other != "b4" {
				t.Errorf("of the other lineages, %s and %s stay", one, other)
			}
			if message := status.Retention.Message; !strings.Contains(message, "Nothing is removed from lineage 8-g1") || !strings.Contains(message, key) {
				t.Errorf("it says %q", message)
			}
			if n := len(status.Lineages); n != 3 {
				t.Fatalf("%d lineages", n)
			}
			for _, l := range status.Lineages {
				if named := strings.Contains(l.Unreadable, key); named != (l.Name == "8-g1") || l.StoredBytes == 0 || l.WALBytes == 0 {
					t.Errorf("%+v", l)
				}
			}
		})
	}
}

// TestTheBackupsThatWereFoundInALineageStayWhileItCanNotBeRead: their objects can be held, and named by a Restore.
func TestTheBackupsThatWereFoundInALineageStayWhileItCanNotBeRead(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](9)})
	b.repo.Spec.Catalogue = v1alpha1.CatalogueAll
	b.claim("8-g1")
	b.fill("8-g1", 2, 4)
	found := func() int {
		list := &v1alpha1.BackupList{}
		b.must(b.api.List(b.Context(), list))
		return len(list.Items)
	}
	b.run()
	if found() != 2 {
		t.Fatalf("%d were found", found())
	}
	b.must(b.Put(b.Context(), layout.LineageKey("8-g1"), []byte("{"), objstore.PutOptions{}))
	if b.run(); found() != 2 {
		t.Errorf("%d are left", found())
	}
}

// TestTheDamagedClaimOfABackupThatIsNoLongerWrittenIsDeletedInTheEnd: nothing else would ever be.
func TestTheDamagedClaimOfABackupThatIsNoLongerWrittenIsDeletedInTheEnd(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 2, 4)
	written := b.Store
	b.clock = at(7)
	b.Store = mem.NewAt(func() time.Time { return b.clock })
	b.must(b.Put(b.Context(), layout.ClaimKey("7-g1", "b9", "run"), []byte("garbage"), objstore.PutOptions{}))
	for info, err := range written.List(b.Context(), "", "") {
		content, errGet := written.Get(b.Context(), info.Key, 1<<30)
		b.must(errors.Join(err, errGet, b.Put(b.Context(), info.Key, content, objstore.PutOptions{})))
	}
	b.clock = now
	if status := b.run(); b.backups("7-g1") != "b4" || status.Retention.Message != "" {
		t.Errorf("%s stay: %s", b.backups("7-g1"), status.Retention.Message)
	}
}

// TestNothingIsRemovedBecauseOfABackupWhoseListOfFilesIsDamaged: its header, by which it is known, is whole.
func TestNothingIsRemovedBecauseOfABackupWhoseListOfFilesIsDamaged(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 2, 4, 6, 8)
	b.spoilList("7-g1", "b8")
	status := b.run()
	if got := b.backups("7-g1"); got != "b2 b4 b6 b8" || b.segments("7-g1") != 9 || !strings.Contains(status.Retention.Message, "b8.") {
		t.Errorf("%s and %d segments stay: %s", got, b.segments("7-g1"), status.Retention.Message)
	}
}
