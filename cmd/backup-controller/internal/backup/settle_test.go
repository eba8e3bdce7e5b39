package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/bucketlock"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// byHand deletes as howdah-backup does.
var byHand = bucketlock.Holder{ID: "hand", Name: "howdah-backup delete older on vault"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// writeBackup commits a backup in the lineage of newBackup's plan.
func writeBackup(t *testing.T, store objstore.Store, id string, segment uint64) {
	t.Helper()
	const size = postgres.MinSegSize
	name := postgres.Segment{Timeline: 1, Number: segment, SegSize: size}.Name()
	must(t, wal.New(store).Put(t.Context(), "7-g1", name, []byte(name), wal.Info{Writer: "test"}))
	dir, lsn := t.TempDir(), postgres.LSN(segment*size)
	must(t, errors.Join(
		os.MkdirAll(filepath.Join(dir, "global"), 0o700), os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("17\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "global/pg_control"), make([]byte, 8192), 0o600),
	))
	_, err := backup.Write(t.Context(), store, backup.Source{
		DataDir: dir, Lineage: "7-g1", SystemIdentifier: "7", PGVersion: "17.5", PGMajor: 17, WALSegmentSize: size,
		Start: func(context.Context) (backup.Started, error) {
			return backup.Started{LSN: lsn + 40, Timeline: 1, Time: noon}, nil
		},
		Stop: func(context.Context) (backup.Stopped, error) {
			return backup.Stopped{LSN: lsn + 100, Time: noon, BackupLabel: "x"}, nil
		},
	}, backup.Options{ID: id})
	must(t, err)
}

// settled is what settle finds out about a Backup in a store.
func settled(t *testing.T, store objstore.Store, b *v1alpha1.Backup) found {
	t.Helper()
	r := &Reconciler{
		Dependencies: manager.Dependencies{Now: func() time.Time { return noon }}, Deletions: &deletionlock.Locks{},
		Open: func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
			return store, nil
		},
	}
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio", UID: "r"}}
	return r.lookAndClear(t.Context(), &observed{backup: b, planned: repo})
}

func TestWhatAJobHasLeftStaysWhileSomebodyElseDeletesFromItsLineage(t *testing.T) {
	store, b := mem.New(), newBackup("late", planned)
	left := layout.PackKey("7-g1", b.Status.Plan.ID, "killed-000000")
	must(t, store.Put(t.Context(), left, []byte("x"), objstore.PutOptions{}))
	_, unlock, err := bucketlock.Lock(t.Context(), store, "7-g1", byHand)
	must(t, err)
	if result := settled(t, store, b); !errors.Is(result.err, bucketlock.ErrHeld) {
		t.Errorf("while it is locked: %+v", result)
	}
	if _, err := store.Stat(t.Context(), left); err != nil {
		t.Error(err)
	}
	unlock()
	if result := settled(t, store, b); result.err != nil || result.header != nil {
		t.Errorf("once it is not: %+v", result)
	}
	for info, err := range store.List(t.Context(), "", "") {
		t.Errorf("%s is left, %v", info.Key, err)
	}
}

// A worker on a node that is cut off was given up, and commits its backup at any moment while it is settled. A person sees that one and
// deletes the other, as it is older.
func TestABackupIsLeftWhenAWorkerThatWasGivenUpCommitsAndAPersonDeletesTheOther(t *testing.T) {
	b := newBackup("late", planned)
	late, committed := b.Status.Plan.ID, mem.New()
	writeBackup(t, committed, late, 4)
	most, refused, counted := 0, 0, 0
	for number := 0; number <= most; number++ { // at first it is not committed at all
		moments, store := 0, mem.New()
		writeBackup(t, store, "older", 2)
		var mu sync.Mutex // calls may be made in parallel
		result := settled(t, fault.New(store, fault.Plan{Before: func(fault.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if moments++; moments != number {
				return nil
			}
			copyAll(t, committed, store)
			if _, err := backup.Committed(t.Context(), store, "7-g1", late); err != nil {
				return err
			}
			switch _, unlock, err := bucketlock.Lock(t.Context(), store, "7-g1", byHand); {
			case errors.Is(err, bucketlock.ErrHeld):
				refused++
			case err != nil:
				return err
			default:
				defer unlock()
				_, err = backup.Delete(t.Context(), store, "7-g1", "older")
				return err
			}
			return nil
		}}), b)
		if result.err != nil { // it was committed between two looks at it: the controller tries again
			result = settled(t, store, b)
		}
		must(t, result.err)
		left := 0
		for _, id := range []string{"older", late} {
			if _, err := backup.Committed(t.Context(), store, "7-g1", id); err == nil {
				left++
			}
		}
		most = max(most, moments)
		if left == 0 {
			t.Errorf("no backup is left when it is committed before call %d", number)
		}
		if result.header != nil {
			counted++
		}
	}
	if most < 6 || refused == 0 || counted == 0 {
		t.Errorf("of %d moments, the person was refused at %d, and it counted at %d", most, refused, counted)
	}
}

func copyAll(t *testing.T, from, to objstore.Store) {
	t.Helper()
	for info, err := range from.List(t.Context(), "", "") {
		must(t, err)
		body, err := from.Get(t.Context(), info.Key, info.Size)
		must(t, err)
		must(t, to.Put(t.Context(), info.Key, body, objstore.PutOptions{}))
	}
}
