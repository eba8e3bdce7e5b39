package pruning

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
)

// By a clock that is ahead, every backup is old.
func TestNothingIsRemovedWhileTheClockHereIsNotThatOfTheBucket(t *testing.T) {
	for ahead, removes := range map[time.Duration]bool{
		40 * 24 * time.Hour: false, 6 * time.Minute: false, -6 * time.Minute: false, 4 * time.Minute: true, 0: true, -4 * time.Minute: true,
	} {
		b := newBucket(t, v1alpha1.RetentionSpec{RecoveryWindow: "3d", NoticePeriod: &metav1.Duration{}})
		b.fill("7-g1", 2, 4, 6, 8)
		b.clock = now.Add(-ahead)
		status := b.run()
		got := b.backups("7-g1")
		if removes != (got == "b6 b8") || !removes && (got != "b2 b4 b6 b8" || b.segments("7-g1") != 9 || !strings.Contains(status.Retention.Message, "that of the object store. Correct the clock")) {
			t.Errorf("%s ahead: %s and %d segments stay: %s", ahead, got, b.segments("7-g1"), status.Retention.Message)
		}
	}
}

// Of the clocks of the instance and of the controller one is wrong, and nobody knows which.
func TestNothingIsRemovedWhileTheNewestBackupIsFromTheFuture(t *testing.T) {
	for day, removes := range map[uint64]bool{9: true, 7: false} { // that it is, here and in the bucket
		b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
		b.fill("7-g1", 2, 4, 8)
		b.clock = at(day)
		pruner := b.pruner()
		pruner.Now = func() time.Time { return at(day) }
		result := pruner.Run(t.Context(), b.repo, "")
		b.must(result.Err)
		if got, said := b.backups("7-g1"), result.message(); removes != (got == "b8") || removes == strings.Contains(said, "backup b8 ended at 2026-03-03 05:06 UTC") {
			t.Errorf("on day %d: %s stay: %s", day, got, said)
		}
	}
}
