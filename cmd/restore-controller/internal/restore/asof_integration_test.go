//go:build integration

package restore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// wiped is a bucket with versions, filled at a time, in which somebody has deleted or overwritten everything an hour later.
func wiped(t *testing.T, at time.Time) *mem.Versioned {
	t.Helper()
	now := at
	bucket := mem.NewVersioned(func() time.Time { return now })
	buckettest.Fill(t, bucket, 4, 5, 6)
	now = at.Add(time.Hour)
	overwrite := true
	for info, err := range bucket.List(t.Context(), "", "") {
		if err == nil && overwrite {
			err = bucket.Put(t.Context(), info.Key, []byte("pay"), objstore.PutOptions{})
		} else if err == nil {
			err = bucket.Delete(t.Context(), info.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		overwrite = !overwrite
	}
	return bucket
}

// task is what the Job of the Restore is told.
func (l *lab) task() (task agentapi.RestoreJob) {
	l.Helper()
	told := &corev1.ConfigMap{ObjectMeta: l.meta("r-restore")}
	if !l.there(told) {
		l.Fatal("the Job is told nothing")
	}
	if err := json.Unmarshal([]byte(told.Data[filepath.Base(agentapi.JobFile)]), &task); err != nil {
		l.Fatal(err)
	}
	return task
}

// TestABucketThatWasWipedIsRestoredAsOfATimeBefore: the plan, and the Job by its task, read the versions of that time, and the new cluster
// archives nothing there.
func TestABucketThatWasWipedIsRestoredAsOfATimeBefore(t *testing.T) {
	filled := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		asOf   time.Duration // after it was filled
		source func(*v1alpha1.RestoreSpec)
		want   string // reason of a refusal
	}{
		"before, by its Backup":       {time.Minute, nil, ""},
		"before, from a bare bucket":  {time.Minute, fromBareBucket, ""},
		"after":                       {2 * time.Hour, nil, v1alpha1.ReasonBackupNotFound},
		"before there was any backup": {-time.Hour, nil, v1alpha1.ReasonBackupNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, func(s *v1alpha1.BackupRepositorySpec) {
				s.ReadOnly, s.AsOf = true, &metav1.Time{Time: filled.Add(test.asOf)}
			})
			bucket := wiped(t, filled)
			l.store = bucket
			restore := l.restore(test.source)
			if test.want != "" {
				if message := l.await(restore, metav1.ConditionFalse, test.want); restore.Status.Plan != nil || l.there(l.cluster("copy")) {
					t.Errorf("%s; %+v", message, restore.Status)
				}
				return
			}
			l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
			task := l.task()
			if task.Repository.AsOf == nil || !task.Repository.AsOf.Equal(filled.Add(test.asOf)) || !task.Repository.ReadOnly || task.BackupID != "b" ||
				task.LastWAL != "000000010000000000000006" {
				t.Fatalf("the Job is told %+v", task)
			}
			restoreAs(t, asof.New(bucket, *task.Repository.AsOf), task)
			l.jobEnds(success(restore))
			l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
			if made := l.cluster("copy"); !l.there(made) || made.Spec.Archive != nil || restore.Status.Plan.ArchivesTo != "" {
				t.Errorf("the new cluster archives to %+v", made.Spec.Archive)
			}
		})
	}
}

// restoreAs does what the Job would.
func restoreAs(t *testing.T, store objstore.Store, task agentapi.RestoreJob) {
	t.Helper()
	m, err := backup.ReadManifest(t.Context(), store, task.Lineage, task.BackupID)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if err := backup.Restore(t.Context(), store, m, dir, backup.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "backup_me")); err != nil || string(got) != "x" {
		t.Errorf("restored %q, %v", got, err)
	}
	if got, _, err := wal.New(store).Get(t.Context(), task.Lineage, task.LastWAL); err != nil || string(got) != "\x06" {
		t.Errorf("the last WAL is %q, %v", got, err)
	}
}
