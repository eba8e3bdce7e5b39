package backup

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// TestWhatAProcessFindsAtItsStartWakesNoOtherBackup: each of ten thousand would list ten thousand.
func TestWhatAProcessFindsAtItsStartWakesNoOtherBackup(t *testing.T) {
	for _, o := range others() {
		wakes := predicate.And(o.changes...)
		if wakes.Create(event.CreateEvent{Object: o.kind, IsInInitialList: true}) {
			t.Errorf("%T: one that is there at the start wakes others", o.kind)
		}
		if !wakes.Create(event.CreateEvent{Object: o.kind}) {
			t.Errorf("%T: a new one wakes nobody", o.kind)
		}
	}
}
