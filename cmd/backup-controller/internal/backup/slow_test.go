package backup

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

// slowStore takes its time for one object.
type slowStore struct {
	objstore.Store
	key   string
	takes time.Duration
}

func (s slowStore) ReadAt(ctx context.Context, key string, b []byte, off int64) (int, error) {
	if key == s.key {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return 0, fmt.Errorf("read %s: %w", key, ctx.Err())
		}
	}
	return s.Store.ReadAt(ctx, key, b, off)
}

// Before data is deleted, all is read that other backups need, and once more then. Where that takes longer than an attempt has, the next one
// has more, and the condition says so; else the Backup could never be deleted.
func TestABackupIsDeletedAlthoughReadingWhatOthersNeedTakesLongerThanAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := mem.New(), newBackup("first", planned, deleted)
		writeBackup(t, store, "other", 2)
		writeBackup(t, store, b.Status.Plan.ID, 4)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &Reconciler{
			Dependencies: manager.Dependencies{Now: time.Now}, Deletions: &deletionlock.Locks{}, Stores: Stores(ctx),
			Open: func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
				return slowStore{store, layout.ManifestKey("7-g1", "other"), 15 * time.Minute}, nil
			},
		}
		r.Stores.WakeBy(func(client.Object) {})
		repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio", UID: "r"}}
		var said []string
		for begun := time.Now(); ; time.Sleep(time.Minute) {
			outcome := r.deleteData(ctx, &observed{backup: b, planned: repo})
			if outcome.Finished() {
				break
			}
			if len(said) == 0 || said[len(said)-1] != outcome.Message {
				said = append(said, outcome.Message)
			}
			if time.Since(begun) > 3*time.Hour {
				t.Fatalf("it is not deleted: %q", said)
			}
			synctest.Wait()
		}
		all := strings.Join(said, "\n")
		for _, want := range []string{"did not end within 10 minutes. ", "The next attempt has 20 minutes. To delete the Backup but keep", "The next attempt has 40 minutes."} {
			if !strings.Contains(all, want) {
				t.Errorf("nothing says %q: %s", want, all)
			}
		}
		if ids, err := backup.IDs(t.Context(), store, "7-g1"); err != nil || len(ids) != 1 || ids[0] != "other" {
			t.Errorf("there are the backups %v, %v", ids, err)
		}
		for info, err := range store.List(t.Context(), layout.BackupPacksPrefix("7-g1", b.Status.Plan.ID), "") {
			t.Errorf("%v is left, %v", info.Key, err)
		}
		if found := (found{late: true, limit: 40 * time.Minute}); found.next() != 40*time.Minute {
			t.Errorf("an attempt may last for %v", found.next())
		}
	})
}
