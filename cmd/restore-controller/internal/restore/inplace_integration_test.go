//go:build integration

package restore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// running makes the cluster shop, which runs the database that was backed up, on data generation g0.
func (l *lab) running() *v1alpha1.PostgresCluster {
	l.Helper()
	shop := l.cluster("shop")
	shop.Spec = v1alpha1.PostgresClusterSpec{Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}}
	shop.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "repo"}}
	l.createWithStatus(shop, func(o client.Object) {
		status := &o.(*v1alpha1.PostgresCluster).Status
		status.ObservedGeneration, status.DataGeneration, status.SystemIdentifier = 1, "g0", "7"
		status.MajorVersion, status.Image, status.Primary = 17, "postgres:17.5", "shop-0"
		status.Instances = []v1alpha1.InstanceStatus{{Name: "shop-0"}}
		status.Conditions = conditions(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	})
	return shop
}

// inPlace makes a Restore of the Backup base into the cluster shop, in place.
func (l *lab) inPlace(change func(*v1alpha1.RestoreSpec)) *v1alpha1.Restore {
	l.Helper()
	return l.restore(func(s *v1alpha1.RestoreSpec) {
		s.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
		if change != nil {
			change(s)
		}
	})
}

func (l *lab) patchSpec(restore *v1alpha1.Restore, spec string) {
	l.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))
	if err := l.Patch(context.Background(), restore, patch); err != nil {
		l.Fatal(err)
	}
}

// expectShop expects the cluster to run on a data generation, held by nobody, with another one let go.
func (l *lab) expectShop(uid, generation, released string) {
	l.Helper()
	shop := l.cluster("shop")
	what := ""
	l.eventually("shop runs on "+generation, func() bool {
		there := l.there(shop)
		what = fmt.Sprintf("%+v", shop.Status)
		return there && string(shop.UID) == uid && shop.Status.DataGeneration == generation && len(shop.Status.VolumeLocks) == 0
	}, &what)
	if want := []string{released}; released != "" && !slices.Equal(shop.Status.ReleasedDataGenerations, want) || released == "" && len(shop.Status.ReleasedDataGenerations) > 0 {
		l.Errorf("released: %v, want %s", shop.Status.ReleasedDataGenerations, released)
	}
}

func TestAClusterIsRestoredInPlaceAndConfirmed(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	restore := l.inPlace(nil)
	l.jobEnds(success(restore))
	message := l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation)
	status := restore.Status
	if !strings.Contains(message, "set spec.decision to Confirm or Undo") || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionRestored) {
		t.Errorf("%s; %+v", message, status.Conditions)
	}
	if status.Previous.DataGeneration != "g0" || status.Previous.Instance != "shop-0" || status.Plan.Image != "postgres:17.5" || status.VolumeLockRequest != nil ||
		status.BackupRequest == nil || status.BackupRequest.Purpose != v1alpha1.PurposeFirst || !status.ConfirmBy.Time.After(time.Now().Add(23*time.Hour)) {
		t.Errorf("status: %+v", status)
	}
	l.expectShop(string(shop.UID), status.Plan.DataGeneration, "")
	job := &batchv1.Job{ObjectMeta: l.meta("r-restore")}
	if !l.there(job) || job.Spec.Template.Spec.Containers[0].Image != "postgres:17.5" {
		t.Errorf("Job: %+v", job.Spec.Template)
	}
	l.patchSpec(restore, `{"decision":"Confirm"}`)
	if message := l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup); !strings.Contains(message, "until a backup of the restored data has succeeded") {
		t.Error(message)
	}
	l.expectShop(string(shop.UID), status.Plan.DataGeneration, "")
	l.answerBackup(restore)
	message = l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if !strings.Contains(message, "confirmed: spec.decision") || restore.Status.Release != nil {
		t.Errorf("%s; %+v", message, restore.Status)
	}
	l.expectShop(string(shop.UID), restore.Status.Plan.DataGeneration, "g0")
}

func TestARestoreInPlaceIsUndone(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	restore := l.inPlace(nil)
	l.jobEnds(success(restore))
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation)
	l.patchSpec(restore, `{"decision":"Undo"}`)
	l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonUndone)
	if meta.IsStatusConditionTrue(restore.Status.Conditions, v1alpha1.ConditionRestored) || restore.Status.BackupRequest != nil || restore.Status.CompletedAt == nil {
		t.Errorf("%+v", restore.Status)
	}
	l.expectShop(string(shop.UID), "g0", restore.Status.Plan.DataGeneration)
	if err := l.Patch(context.Background(), restore, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"decision":"Confirm"}}`))); err == nil ||
		!strings.Contains(err.Error(), "spec.decision can't be changed once it is made") {
		t.Errorf("taking the decision back: %v", err)
	}
}

func TestARestoreInPlaceCannotBeUndoneOnceAnotherOneOnTopOfItIsConfirmed(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	first := l.inPlace(nil)
	l.jobEnds(success(first))
	l.await(first, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation)
	second := &v1alpha1.Restore{ObjectMeta: l.meta("second"), Spec: *first.Spec.DeepCopy()}
	if err := l.Create(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	l.jobEnds(success(second))
	l.await(second, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation)
	l.patchSpec(first, `{"decision":"Undo"}`)
	l.await(first, metav1.ConditionUnknown, v1alpha1.ReasonUndoing)
	l.patchSpec(second, `{"decision":"Confirm"}`)
	l.answerBackup(second)
	l.await(second, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	l.await(first, metav1.ConditionFalse, v1alpha1.ReasonUndoImpossible)
	l.expectShop(string(shop.UID), second.Status.Plan.DataGeneration, first.Status.Plan.DataGeneration)
	if err := l.Delete(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	what := "still there"
	l.eventually("it is gone", func() bool { return !l.there(first) }, &what)
	if l.there(shop); !slices.Contains(shop.Status.ReleasedDataGenerations, "g0") {
		t.Errorf("released: %v", shop.Status.ReleasedDataGenerations)
	}
}

func TestARestoreInPlaceThatNobodyDecidesOnIsConfirmed(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	restore := l.inPlace(func(s *v1alpha1.RestoreSpec) { s.ConfirmWithin = &metav1.Duration{Duration: time.Second} })
	l.jobEnds(success(restore))
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	l.answerBackup(restore)
	if message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted); !strings.Contains(message, "nobody decided within") {
		t.Error(message)
	}
	l.expectShop(string(shop.UID), restore.Status.Plan.DataGeneration, "g0")
}

func TestARestoreInPlaceThatFailsLeavesTheClusterAsItWas(t *testing.T) {
	for name, test := range map[string]struct {
		fail   func(*lab, *v1alpha1.Restore)
		reason string
		want   string
	}{
		"its Job fails": {func(l *lab, _ *v1alpha1.Restore) {
			l.jobEnds(agentapi.Outcome{Error: &agentapi.JobError{Reason: v1alpha1.ReasonDataCorrupt, Message: "object x is corrupt", Final: true}})
		}, v1alpha1.ReasonDataCorrupt, "Object x is corrupt. PostgresCluster shop continues with its previous data."},
		"it is cancelled": {func(l *lab, r *v1alpha1.Restore) {
			l.await(r, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
			l.patchSpec(r, `{"cancel":true}`)
		}, v1alpha1.ReasonCancelled, "continues with its previous data"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			shop := l.running()
			restore := l.inPlace(nil)
			test.fail(l, restore)
			if message := l.await(restore, metav1.ConditionFalse, test.reason); !strings.Contains(message, test.want) {
				t.Error(message)
			}
			l.expectShop(string(shop.UID), "g0", restore.Status.Plan.DataGeneration)
		})
	}
}

func TestWithoutItsSafetyBackupNothingIsTouched(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	restore := l.inPlace(func(s *v1alpha1.RestoreSpec) { s.Destination.InPlace.SafetyBackup = true })
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	if wanted := restore.Status.BackupRequest; wanted == nil || wanted.Purpose != v1alpha1.PurposeSafety || restore.Status.VolumeLockRequest != nil {
		t.Fatalf("%+v", restore.Status)
	}
	l.answerBackupWith(restore, metav1.ConditionFalse)
	if message := l.await(restore, metav1.ConditionFalse, v1alpha1.ReasonSafetyBackupFailed); !strings.Contains(message, "PostgresCluster shop was not touched") {
		t.Error(message)
	}
	l.expectShop(string(shop.UID), "g0", "")
}

func TestWithItsSafetyBackupItGoesOn(t *testing.T) {
	l := newLab(t)
	l.running()
	restore := l.inPlace(func(s *v1alpha1.RestoreSpec) { s.Destination.InPlace.SafetyBackup = true })
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingBackup)
	l.answerBackupWith(restore, metav1.ConditionTrue)
	l.jobEnds(success(restore))
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfirmation)
	if !strings.HasPrefix(restore.Status.SafetyBackup, "shop-safety-") {
		t.Errorf("%+v", restore.Status)
	}
}

func TestAPlanTouchesNothing(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	restore := l.inPlace(func(s *v1alpha1.RestoreSpec) { s.Mode = v1alpha1.RestorePlanOnly })
	message := l.await(restore, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
	if !strings.Contains(message, "can be reached: from backup b (") || !strings.Contains(message, "The archive ends at LSN 0/7000000, with a commit of 2026-03-01T12:06:00Z") || restore.Status.Plan == nil || restore.Status.VolumeLockRequest != nil {
		t.Errorf("%s; %+v", message, restore.Status)
	}
	l.expectShop(string(shop.UID), "g0", "")
}

func TestADeletedRestoreInPlaceLeavesTheClusterAsItWas(t *testing.T) {
	l := newLab(t)
	shop := l.running()
	restore := l.inPlace(nil)
	l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	generation := restore.Status.Plan.DataGeneration
	if err := l.Delete(context.Background(), restore); err != nil {
		t.Fatal(err)
	}
	what := "still there"
	l.eventually("it is gone", func() bool { return !l.there(restore) }, &what)
	l.expectShop(string(shop.UID), "g0", generation)
}

func TestATargetIsHandedToTheJobAsItWasPlanned(t *testing.T) {
	for name, test := range map[string]struct {
		target v1alpha1.RestoreTarget
		want   string
	}{
		"a transaction":         {v1alpha1.RestoreTarget{XID: 700, Inclusive: ptr.To(false)}, `"xid":700,"inclusive":false`},
		"the end of the backup": {v1alpha1.RestoreTarget{Immediate: true}, `"immediate":true`},
		"the end of a timeline": {v1alpha1.RestoreTarget{Timeline: 1}, `"target":{},"timeline":1`},
		"right before a commit": {v1alpha1.RestoreTarget{Time: "2026-03-01T12:06:00Z", Inclusive: ptr.To(false)}, `"time":"2026-03-01T12:06:00Z","inclusive":false`},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			restore := l.restore(func(s *v1alpha1.RestoreSpec) { s.Target = &test.target })
			l.await(restore, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
			job := &corev1.ConfigMap{ObjectMeta: l.meta("r-restore")}
			if !l.there(job) || !strings.Contains(strings.Join(slices.Collect(maps.Values(job.Data)), ""), test.want) {
				t.Errorf("%+v", job.Data)
			}
		})
	}
}

// TestCrashesChangeNothingInPlace restarts the controller whenever the Restore says something new, on the way there and back.
func TestCrashesChangeNothingInPlace(t *testing.T) {
	for decision, end := range map[string]metav1.ConditionStatus{"Confirm": metav1.ConditionTrue, "Undo": metav1.ConditionFalse} {
		t.Run(decision, func(t *testing.T) {
			l := newLab(t)
			shop := l.running()
			restore := l.inPlace(nil)
			l.jobEnds(success(restore))
			last, restarts, backedUp := "", 0, false
			l.eventually("it ends under crashes", func() bool {
				l.there(restore)
				c := meta.FindStatusCondition(restore.Status.Conditions, v1alpha1.ConditionSucceeded)
				if c == nil {
					return false
				}
				if c.Reason == v1alpha1.ReasonAwaitingConfirmation && restore.Spec.Decision == "" {
					l.patchSpec(restore, `{"decision":"`+decision+`"}`)
				}
				if c.Reason == v1alpha1.ReasonAwaitingBackup && restore.Status.BackupRequest != nil && !backedUp {
					l.answerBackup(restore)
					backedUp = true
				}
				if now := c.Reason + c.Message; now != last {
					last, restarts = now, restarts+1
					l.restartController()
				}
				return c.Status == end
			}, &last)
			if restarts < 5 {
				t.Errorf("only %d crashes", restarts)
			}
			now, gone := restore.Status.Plan.DataGeneration, "g0"
			if decision == "Undo" {
				now, gone = gone, now
			}
			l.expectShop(string(shop.UID), now, gone)
		})
	}
}

func TestWhatCannotBeAskedForInPlaceIsRefusedAtOnce(t *testing.T) {
	l := newLab(t)
	for name, test := range map[string]struct {
		change func(*v1alpha1.RestoreSpec)
		want   string
	}{
		"two destinations":            {func(s *v1alpha1.RestoreSpec) { s.Destination.InPlace = &v1alpha1.InPlace{Name: "shop"} }, "must have exactly one of newCluster, inPlace and intoCluster"},
		"no destination":              {func(s *v1alpha1.RestoreSpec) { s.Destination.NewCluster = nil }, "must have exactly one of newCluster, inPlace and intoCluster"},
		"a decision on a new cluster": {func(s *v1alpha1.RestoreSpec) { s.Decision = v1alpha1.DecisionUndo }, "apply to a restore in place"},
		"two targets": {func(s *v1alpha1.RestoreSpec) {
			s.Target = &v1alpha1.RestoreTarget{XID: 700, Immediate: true}
		}, "must have exactly one of time, lsn, xid, restorePoint and immediate"},
		"no target at all": {func(s *v1alpha1.RestoreSpec) { s.Target = &v1alpha1.RestoreTarget{} }, "must have exactly one of time, lsn, xid, restorePoint and immediate"},
		"a transaction without a backup": {func(s *v1alpha1.RestoreSpec) {
			s.Source = v1alpha1.RestoreSource{Cluster: &v1alpha1.ClusterSource{Name: "shop"}}
			s.Target = &v1alpha1.RestoreTarget{XID: 700}
		}, "spec.target.xid needs spec.source.backup"},
		"a restore point that is not included": {func(s *v1alpha1.RestoreSpec) {
			s.Target = &v1alpha1.RestoreTarget{RestorePoint: "p", Inclusive: ptr.To(false)}
		}, "spec.target.inclusive applies to time, lsn or xid only"},
		"a time that is too long": {func(s *v1alpha1.RestoreSpec) {
			s.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
			s.ConfirmWithin = &metav1.Duration{Duration: 9000 * time.Hour}
		}, "spec.confirmWithin must be from 0s to 8760h"},
		"a downtime that is too short": {func(s *v1alpha1.RestoreSpec) {
			s.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop"}}
			s.MaxDowntime = &metav1.Duration{Duration: time.Second}
		}, "spec.maxDowntime must be from 1m to 168h"},
		"a bounded downtime without a way back": {func(s *v1alpha1.RestoreSpec) {
			s.Destination = v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: "shop", SafetyBackup: true, DiscardPrevious: true}}
			s.MaxDowntime = &metav1.Duration{Duration: time.Hour}
		}, "spec.maxDowntime applies to a restore in place that keeps the previous data"},
	} {
		restore := &v1alpha1.Restore{ObjectMeta: l.meta("bad"), Spec: v1alpha1.RestoreSpec{
			Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}},
			Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "copy"}},
		}}
		test.change(&restore.Spec)
		if err := l.Create(context.Background(), restore); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
