package verify

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"howdah.dev/apis/v1alpha1"
)

// TestWhatAProcessFindsAtItsStartWakesNoOtherBackup: each of ten thousand would list ten thousand.
func TestWhatAProcessFindsAtItsStartWakesNoOtherBackup(t *testing.T) {
	if turns().Create(event.CreateEvent{Object: &v1alpha1.Backup{}, IsInInitialList: true}) {
		t.Error("one that is there at the start wakes the next")
	}
	if !turns().Create(event.CreateEvent{Object: &v1alpha1.Backup{}}) {
		t.Error("a new one wakes nobody")
	}
}
