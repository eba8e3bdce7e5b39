//go:build integration

package restore

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// success is what the worker of this Restore would say.
func success(restore *v1alpha1.Restore) agentapi.Outcome {
	raw, _ := json.Marshal(agentapi.RestoreResult{
		DataGeneration: protocol.DataGeneration(restore.UID, 0), SystemIdentifier: "7", MajorVersion: 17, ReachedLSN: "0/7000000", Timeline: 2,
	})
	return agentapi.Outcome{Result: raw}
}

func (l *lab) cluster(name string) *v1alpha1.PostgresCluster {
	return &v1alpha1.PostgresCluster{ObjectMeta: l.meta(name)}
}

func TestARestoreMakesTheClusterAndHandsTheDataOver(t *testing.T) {
	l := newLab(t)
	restore := l.restore(nil)
	l.jobEnds(success(restore))
	l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)

	plan := restore.Status.Plan
	if plan.BackupID != "b" || plan.WALSegments != 4 || plan.LastWAL != "000000010000000000000006" || plan.StopAt != nil || plan.Image != "postgres:17" {
		t.Errorf("plan: %+v", plan)
	}
	if restore.Status.VolumeLockRequest != nil || restore.Status.Handover != nil || restore.Status.BackupRequest == nil || restore.Status.Reached.LSN != "0/7000000" {
		t.Errorf("status: %+v", restore.Status)
	}
	made := l.cluster("copy")
	if !l.there(made) || len(made.OwnerReferences) != 0 || made.Spec.Bootstrap.Restore.Database != "shop" || made.Status.DataGeneration != plan.DataGeneration {
		t.Errorf("cluster: %+v", made)
	}
	job := &batchv1.Job{ObjectMeta: l.meta("r-restore")}
	if !l.there(job) || job.Spec.Template.Spec.Containers[0].Image != "postgres:17" || job.Spec.Template.Labels[v1alpha1.LabelComponent] != "restore" {
		t.Errorf("Job: %+v", job.Spec.Template)
	}
}

// TestCrashesChangeNothing restarts the controller whenever the Restore says something new.
func TestCrashesChangeNothing(t *testing.T) {
	l := newLab(t)
	restore := l.restore(nil)
	l.jobEnds(success(restore))
	last, restarts := "", 0
	l.eventually("it succeeds under crashes", func() bool {
		l.there(restore)
		for _, c := range restore.Status.Conditions {
			if c.Type == v1alpha1.ConditionSucceeded && c.Status == metav1.ConditionTrue {
				return true
			}
			if now := c.Reason + c.Message; now != last {
				last, restarts = now, restarts+1
				l.restartController()
			}
		}
		return false
	}, &last)
	if restarts < 3 {
		t.Errorf("only %d crashes", restarts)
	}
	clusters := &v1alpha1.PostgresClusterList{}
	if err := l.List(context.Background(), clusters, client.InNamespace(l.ns)); err != nil || len(clusters.Items) != 1 {
		t.Errorf("%d clusters, %v", len(clusters.Items), err)
	}
}

func TestAFailedJobLeavesNothing(t *testing.T) {
	l := newLab(t)
	l.jobEnds(agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "object x is corrupt", Final: true}})
	restore := l.restore(nil)
	message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt)
	if !strings.Contains(message, "Object x is corrupt. The unfinished PostgresCluster copy was deleted") {
		t.Error(message)
	}
	if l.there(l.cluster("copy")) || restore.Status.VolumeLockRequest != nil || restore.Status.CompletedAt == nil {
		t.Errorf("something is left: %+v", restore.Status)
	}
}

func TestACancelledRestoreLeavesNothing(t *testing.T) {
	l := newLab(t)
	restore := l.restore(nil)
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	if err := l.Patch(context.Background(), restore, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancel":true}}`))); err != nil {
		t.Fatal(err)
	}
	l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonCancelled)
	if l.there(l.cluster("copy")) || l.there(&batchv1.Job{ObjectMeta: l.meta("r-restore")}) {
		t.Error("something is left")
	}
}

func TestADeletedRestoreLeavesNothingUnfinished(t *testing.T) {
	l := newLab(t)
	restore := l.restore(nil)
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	if err := l.Delete(context.Background(), restore); err != nil {
		t.Fatal(err)
	}
	what := "still there"
	l.eventually("it is gone", func() bool { return !l.there(restore) }, &what)
	if l.there(l.cluster("copy")) || l.there(&batchv1.Job{ObjectMeta: l.meta("r-restore")}) {
		t.Error("something is left")
	}
}

func TestAFinishedRestoreIsDeletedWithoutItsCluster(t *testing.T) {
	l := newLab(t)
	restore := l.restore(func(s *v1alpha1.RestoreSpec) { s.TTLSecondsAfterFinished = ptr.To[int32](1) })
	l.jobEnds(success(restore))
	what := "still there"
	wanted := false
	l.eventually("it expires", func() bool {
		there := l.there(restore)
		if there && restore.Status.BackupRequest != nil && !wanted {
			wanted = true
			l.answerBackup(restore)
		}
		return !there
	}, &what)
	if !wanted || !l.there(l.cluster("copy")) {
		t.Errorf("a backup was wanted: %t", wanted)
	}
}

// answerBackup does what the backup-controller would.
func (l *lab) answerBackup(restore *v1alpha1.Restore) {
	l.Helper()
	l.answerBackupWith(restore, metav1.ConditionTrue)
}

func (l *lab) answerBackupWith(restore *v1alpha1.Restore, succeeded metav1.ConditionStatus) {
	l.Helper()
	request := protocol.BackupRequestOf(restore)
	of := l.cluster(request.Request.Cluster)
	l.there(of)
	l.createWithStatus(protocol.NewBackup(request), func(o client.Object) {
		status := &o.(*v1alpha1.Backup).Status
		status.ObservedGeneration = 1
		status.Plan = &v1alpha1.BackupPlan{ID: o.GetName(), Repository: "repo", Lineage: protocol.Lineage(of.Status.SystemIdentifier, of.Status.DataGeneration), ClusterUID: of.UID}
		status.Conditions = conditions(v1alpha1.ConditionSucceeded, succeeded, v1alpha1.ReasonCompleted)
	})
}

func TestAClusterThatIsThereIsNeverTouched(t *testing.T) {
	l := newLab(t)
	other := l.cluster("copy")
	other.Spec = v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}}
	if err := l.Create(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	restore := l.restore(nil)
	message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if !strings.Contains(message, "PostgresCluster copy already exists") || restore.Status.Plan != nil || !l.there(l.cluster("copy")) {
		t.Errorf("%s; %+v", message, restore.Status)
	}
}

func TestWhatCannotBeReachedIsRefusedBeforeAnythingIsCreated(t *testing.T) {
	for name, test := range map[string]struct {
		target v1alpha1.RestoreTarget
		want   string
	}{
		"a time after the end":    {v1alpha1.RestoreTarget{Time: "2026-03-01T12:30:00Z"}, "the last commit in it is at 2026-03-01T12:06:00Z"},
		"a time before the start": {v1alpha1.RestoreTarget{Time: "2026-03-01T11:00:00+00:00"}, "can be restored to 2026-03-01T12:01:00Z"},
		"an LSN after the end":    {v1alpha1.RestoreTarget{LSN: "0/9000000"}, "ends at LSN 0/7000000"},
		"an unknown point":        {v1alpha1.RestoreTarget{RestorePoint: "nowhere"}, `no restore point "nowhere"`},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			restore := l.restore(func(s *v1alpha1.RestoreSpec) { s.Target = &test.target })
			message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonTargetUnreachable)
			if !strings.Contains(message, test.want) || restore.Status.Plan != nil || l.there(l.cluster("copy")) {
				t.Errorf("%s; %+v", message, restore.Status)
			}
		})
	}
}

func TestADamagedManifestIsNamed(t *testing.T) {
	l := newLab(t)
	store := l.store.(*mem.Store)
	key := "lineages/" + buckettest.Lineage + "/backups/b/manifest.zst"
	body, err := store.Get(t.Context(), key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	body[40] ^= 1
	if err := store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(t.Context(), key, body, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	restore := l.restore(nil)
	if message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonDataCorrupt); !strings.Contains(message, key) {
		t.Error(message)
	}
}

// TestARestoreNamesTheDamagedPagesOfItsBackup where it only plans, and where it has restored.
func TestARestoreNamesTheDamagedPagesOfItsBackup(t *testing.T) {
	const says = " 2 pages of the backup, such as block 1 of base/5/16385, failed their checksum when it was taken,"
	for _, mode := range []v1alpha1.RestoreMode{v1alpha1.RestorePlanOnly, v1alpha1.RestoreExecute} {
		t.Run(string(mode), func(t *testing.T) {
			l := newLab(t)
			l.store = buckettest.WithDamagedPages(t, 4, 5, 6)
			restore := l.restore(func(s *v1alpha1.RestoreSpec) { s.Mode = mode })
			l.jobEnds(success(restore))
			if message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted); !strings.Contains(message, says) {
				t.Error(message)
			}
			want := []v1alpha1.DamagedPage{{File: "base/5/16385", Block: 1}, {File: "base/5/16385", Block: 2}}
			if plan := restore.Status.Plan; plan.DamagedPages != 2 || !slices.Equal(plan.Damaged, want) {
				t.Errorf("the plan names %d: %+v", plan.DamagedPages, plan.Damaged)
			}
		})
	}
}
