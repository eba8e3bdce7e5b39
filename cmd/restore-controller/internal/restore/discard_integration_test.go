//go:build integration

package restore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// fills lets so much of the volume of the cluster shop be in use, which has 1 GiB.
func (l *lab) fills(shop *v1alpha1.PostgresCluster, by string) {
	l.Helper()
	before := shop.DeepCopy()
	capacity, used := resource.MustParse("1Gi"), resource.MustParse(by)
	shop.Status.Instances[0].Storage = &v1alpha1.InstanceStorage{Capacity: &capacity, Used: &used}
	if err := l.Status().Patch(context.Background(), shop, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
}

func discarding(s *v1alpha1.RestoreSpec) {
	s.Destination.InPlace.SafetyBackup, s.Destination.InPlace.DiscardPrevious = true, true
}

func TestThePreviousDataIsGivenUpAfterASafetyBackupWhetherThereIsRoomOrNot(t *testing.T) {
	for _, used := range []string{"10Mi", "1014Mi"} {
		t.Run(used, func(t *testing.T) { givesUp(newLab(t), used) })
	}
}

func givesUp(l *lab, used string) {
	shop := l.running()
	l.fills(shop, used)
	restore := l.inPlace(discarding)
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	if !restore.Status.Plan.DiscardsPrevious || restore.Status.VolumeLockRequest != nil || !restore.Status.BackupRequest.Hold {
		l.Errorf("%+v", restore.Status)
	}
	l.answerBackupWith(restore, metav1.ConditionTrue)
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	what := "no Job yet"
	l.eventually("the Job is told", func() bool {
		job := &corev1.ConfigMap{ObjectMeta: l.meta("r-restore")}
		return l.there(job) && strings.Contains(strings.Join(slices.Collect(maps.Values(job.Data)), ""), `"discardPrevious":"g0"`)
	}, &what)
	l.patchSpec(restore, `{"cancel":true}`) // too late
	l.jobEnds(success(restore))
	message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	safety := restore.Status.SafetyBackup
	if safety == "" || !strings.Contains(message, "Backup "+safety) {
		l.Errorf("%s; %+v", message, restore.Status)
	}
	l.expectShop(string(shop.UID), restore.Status.Plan.DataGeneration, "g0")
	err := l.Patch(context.Background(), restore, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"decision":"Undo"}}`)))
	if err == nil || !strings.Contains(err.Error(), "discarded the previous data: restore Backup "+safety+" in place") {
		l.Errorf("undone: %v", err)
	}
}

func TestWithoutRoomAndWithoutTheWordNothingIsTouched(t *testing.T) {
	l := newLab(t)
	l.fills(l.running(), "1014Mi")
	short := l.inPlace(nil)
	if message := l.await(short, metav1.ConditionFalse, v1alpha1.ReasonNoSpace); !strings.Contains(message, "write discardPrevious: true and safetyBackup: true") {
		t.Error(message)
	}
}

func TestAJobThatFailsAfterItGaveUpThePreviousDataSaysWhereThatIs(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	l.fills(shop, "1014Mi")
	restore := l.inPlace(discarding)
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	l.answerBackupWith(restore, metav1.ConditionTrue)
	l.jobEnds(agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonPreviousDataDiscarded, Message: "the volume is full", Final: true}})
	message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonPreviousDataDiscarded)
	if !strings.Contains(message, "restore Backup "+restore.Status.SafetyBackup+" in place") {
		t.Error(message)
	}
	l.expectShop(string(shop.UID), "g0", restore.Status.Plan.DataGeneration)
}
