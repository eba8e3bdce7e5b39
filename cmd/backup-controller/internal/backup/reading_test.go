package backup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/readnotice"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

// A restore that discards the previous data has nothing else once it has begun.
func TestABackupStaysWhileARestoreReadsIt(t *testing.T) {
	end := &metav1.Time{Time: noon}
	for name, c := range map[string]struct {
		change func(*v1alpha1.RestoreStatus)
		stays  bool
	}{
		"it is planned":            {func(*v1alpha1.RestoreStatus) {}, true},
		"it is not planned":        {func(s *v1alpha1.RestoreStatus) { s.Plan = nil }, false},
		"it reads another":         {func(s *v1alpha1.RestoreStatus) { s.Plan.BackupID = "other" }, false},
		"it reads another lineage": {func(s *v1alpha1.RestoreStatus) { s.Plan.Lineage = "8-g1" }, false},
		"it has the data":          {func(s *v1alpha1.RestoreStatus) { s.Handover = &v1alpha1.Handover{} }, false},
		"it has restored":          {func(s *v1alpha1.RestoreStatus) { s.RestoredAt = end }, false},
		"it has failed":            {func(s *v1alpha1.RestoreStatus) { s.Failure = &v1alpha1.Failure{} }, false},
		"it has ended":             {func(s *v1alpha1.RestoreStatus) { s.CompletedAt = end }, false},
	} {
		b, store := newBackup("a", planned, ended, deleted), mem.New()
		id := b.Status.Plan.ID
		writeBackup(t, store, id, 2)
		restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "back"}}
		restore.Status.Plan = &v1alpha1.RestorePlan{Lineage: "7-g1", BackupID: id}
		c.change(&restore.Status)
		r := &Reconciler{
			Dependencies: manager.Dependencies{Live: fakeapi.New(restore), Now: func() time.Time { return noon }}, Deletions: &deletionlock.Locks{},
			Open: func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
				return store, nil
			},
		}
		repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio", UID: "r"}}
		result := r.deleteNow(t.Context(), &observed{backup: b, planned: repo})
		if c.stays && (!errors.Is(result.err, errBeingRead) || !strings.Contains(result.err.Error(), "Restore back")) || !c.stays && result.err != nil {
			t.Errorf("%s: %v", name, result.err)
		}
		if _, err := backup.ReadHeader(t.Context(), store, "7-g1", id); (err == nil) != c.stays {
			t.Errorf("%s: afterwards %v", name, err)
		}
	}
}

// Of a Restore of another namespace, or of howdah-backup, only the bucket tells.
func TestABackupStaysWhileTheBucketSaysThatItIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		reads string // an ID; "-": the backup itself
		since time.Duration
		stays bool
	}{
		"it is read":                      {"-", time.Hour, true},
		"any backup may be read":          {"", time.Hour, true},
		"another is read":                 {"other", time.Hour, false},
		"it has been waited for long":     {"-", readnotice.Longest, false},
		"it has been waited for not long": {"-", readnotice.Longest - time.Second, true},
	} {
		b, store := newBackup("a", planned, ended, deleted), mem.NewAt(func() time.Time { return noon })
		id := b.Status.Plan.ID
		writeBackup(t, store, id, 2)
		b.DeletionTimestamp = &metav1.Time{Time: noon.Add(-c.since)}
		stop := readnotice.Announce(t.Context(), store, "7-g1", readnotice.Reader{ID: "r", Name: "Restore staging/copy", Backup: strings.ReplaceAll(c.reads, "-", id)}, func(err error) { t.Error(err) })
		r := &Reconciler{
			Dependencies: manager.Dependencies{Live: fakeapi.New(), Now: func() time.Time { return noon }}, Deletions: &deletionlock.Locks{},
			Open: func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
				return store, nil
			},
		}
		repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "minio", UID: "r"}}
		result := r.deleteNow(t.Context(), &observed{backup: b, planned: repo})
		if c.stays && (!errors.Is(result.err, errBeingRead) || !strings.Contains(result.err.Error(), "Restore staging/copy is reading")) || !c.stays && result.err != nil {
			t.Errorf("%s: %v", name, result.err)
		}
		if _, err := backup.ReadHeader(t.Context(), store, "7-g1", id); (err == nil) != c.stays {
			t.Errorf("%s: afterwards %v", name, err)
		}
		stop()
	}
}
