package pruning

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/readnotice"
	"howdah.dev/howdah/pkg/objstore"
)

// reads says in the bucket that b4 is read by somebody of whom nothing is known here.
func (b *bucket) reads() (stop func()) {
	b.Helper()
	return readnotice.Announce(b.Context(), b, "7-g1", readnotice.Reader{ID: "other", Name: "Restore staging/copy", Backup: "b4"}, func(err error) { b.Error(err) })
}

func TestNothingIsRemovedFromALineageThatSomebodyReadsOfWhomOnlyTheBucketTells(t *testing.T) {
	b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
	b.fill("7-g1", 2, 4, 6)
	stop := b.reads()
	status := b.run()
	if got := b.backups("7-g1"); got != "b2 b4 b6" || b.segments("7-g1") != 9 || !strings.Contains(status.Retention.Message, "Restore staging/copy is reading b4") ||
		len(status.Lineages) != 1 || status.Lineages[0].ReadSince == nil {
		t.Errorf("%s and %d segments stay: %+v, %+v", got, b.segments("7-g1"), status.Retention, status.Lineages)
	}
	stop()
	if status := b.run(); b.backups("7-g1") != "b6" || status.Lineages[0].ReadSince != nil {
		t.Errorf("afterwards %s stay: %+v", b.backups("7-g1"), status.Retention)
	}
}

// Whoever can write to the bucket can say again and again that it is read. The process may be another one each time.
func TestReadersAreWaitedForADay(t *testing.T) {
	for name, status := range map[string]v1alpha1.LineageStatus{
		"a day ago": {Name: "7-g1", ReadSince: &metav1.Time{Time: now.Add(-24 * time.Hour)}}, "a moment before": {Name: "7-g1", ReadSince: &metav1.Time{Time: now.Add(time.Minute - 24*time.Hour)}},
	} {
		b := newBucket(t, v1alpha1.RetentionSpec{KeepLast: ptr.To[int32](1), NoticePeriod: &metav1.Duration{}})
		b.fill("7-g1", 2, 4, 6)
		b.must(b.Put(t.Context(), layout.ReaderKey("7-g1", "forged"), nil, objstore.PutOptions{}))
		b.repo.Status.Lineages = []v1alpha1.LineageStatus{status}
		got := b.run()
		if stay, over := b.backups("7-g1"), name == "a day ago"; stay == "b6" != over || got.Lineages[0].ReadSince == nil != over {
			t.Errorf("%s: %s stay: %+v", name, stay, got.Retention)
		}
	}
}
