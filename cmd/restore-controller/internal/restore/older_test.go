package restore

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/workload"
)

// passes are made until one saves nothing.
func passes(t *testing.T, o *observed) (last flow.Outcome) {
	t.Helper()
	r := &Reconciler{}
	for range 20 {
		if last = flow.Run(t.Context(), o, r.plan(o)...); last.Kind != flow.KindSave {
			return last
		}
	}
	t.Fatalf("the Restore saves again and again: %+v", last)
	return last
}

// TestAnOlderStatusBringsNothingBackInPlace: after a backup of etcd was restored, a Restore may be where it handed the restored data over long ago, and its
// time to start on it is over at once. Clients have used that data since.
func TestAnOlderStatusBringsNothingBackInPlace(t *testing.T) {
	for name, before := range map[string]func(*observed){
		"handed over": func(o *observed) {
			handOver(o)
			o.restore.Status.HandedOverAt = &metav1.Time{Time: o.now.AddDate(0, 0, -1)}
		},
		"its Job failed": func(o *observed) {
			handOver(o)
			o.restore.Status.Handover, o.job = nil, workload.State{Exists: true, Failed: true}
		},
		"it discards the previous data": func(o *observed) {
			discard(o)
		},
		"cancelled": func(o *observed) {
			handOver(o)
			o.restore.Spec.Cancel = true
		},
	} {
		for _, state := range []v1alpha1.VolumeLockState{"", v1alpha1.VolumeLockGranted, v1alpha1.VolumeLockQueued, v1alpha1.VolumeLockRefused} {
			o := seenInPlace(func(o *observed) {
				before(o)
				o.cluster.Status.DataGeneration = "g1"
				o.cluster.Status.VolumeLocks[0].State = state
				if state == "" {
					o.cluster.Status.VolumeLocks = nil
				}
			})
			if got := names((&Reconciler{}).plan(o)); got != "pinRestored" {
				t.Errorf("%s, its lock is %q: %s", name, state, got)
				continue
			}
			pinRestored(t.Context(), o)
			if status := o.restore.Status; status.RestoredAt == nil || status.Handover != nil || status.VolumeLockRequest != nil || status.Release != nil {
				t.Errorf("%s, its lock is %q: %+v", name, state, status)
			}
		}
	}
}

// TestAnOlderStatusThatDoesNotKnowWhatWasBeforeChangesNothing: it would take what clients have used for the previous data.
func TestAnOlderStatusThatDoesNotKnowWhatWasBeforeChangesNothing(t *testing.T) {
	for name, before := range map[string]func(*observed){"planned": planInPlace, "granted": grant} {
		o := seenInPlace(func(o *observed) {
			before(o)
			o.cluster.Status.DataGeneration = "g1"
		})
		if failure := o.failure(); failure == nil || failure.Reason != v1alpha1.ReasonClusterReplaced {
			t.Errorf("%s: %+v", name, failure)
		}
	}
}

// TestRestoredDataThatAPersonDidNotChooseStaysUntilTheRestoreIsDeleted: after a backup of etcd was restored, nobody but a person knows whether clients have
// used it.
func TestRestoredDataThatAPersonDidNotChooseStaysUntilTheRestoreIsDeleted(t *testing.T) {
	o := seenInPlace(func(o *observed) {
		handOver(o)
		o.cluster.Status.VolumeLocks[0].State, o.cluster.Status.VolumeLocks[0].Message = v1alpha1.VolumeLockRefused, "A person has decided."
	})
	passes(t, o)
	o.cluster.Status.VolumeLocks = nil
	passes(t, o)
	status := &o.restore.Status
	if status.Failure == nil || status.Failure.Reason != v1alpha1.ReasonVolumeLockRefused || status.VolumeLockRequest != nil || status.Release != nil {
		t.Errorf("failure %+v, requested %+v, released %+v", status.Failure, status.VolumeLockRequest, status.Release)
	}
	o.restore.DeletionTimestamp = &metav1.Time{Time: time.Unix(999, 0)}
	passes(t, o)
	if status.Release == nil || status.Release.DataGeneration != "g1" {
		t.Errorf("once it is deleted: %+v", status.Release)
	}
}
