package survey

import (
	"io"
	"testing"

	"howdah.dev/howdah/pkg/backup/repository"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// ship puts a piece of a segment, with a commit in the minute of its number.
func ship(t *testing.T, store *mem.Store, timeline uint32, number uint64) {
	t.Helper()
	segment, at := postgres.Segment{Timeline: timeline, Number: number, SegSize: seg}, buckettest.Minute(int(number))
	info := wal.Info{Writer: "w", EndLSN: segment.Start() + 0x50, LastCommit: &at}
	err := wal.New(store).PutOpen(t.Context(), buckettest.Lineage, segment, 0, 0x60, info, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 0x60))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheReachOfABackupGoesIntoTheOpenSegment(t *testing.T) {
	store := buckettest.New(t, 4, 5)
	ship(t, store, 1, 6)
	r := read(t, store, Question{Cluster: "shop", Namespace: "demo", ClusterUID: "u"}).Reach
	if r.Segments != 4 || r.Last.Number != 6 || r.Missing != "" || r.EndLSN != 6*seg+0x50 || r.LastCommit == nil || !r.LastCommit.Equal(buckettest.Minute(6)) {
		t.Errorf("%+v", r)
	}
}

func TestNoTimelineGoesOnFromAnOpenSegment(t *testing.T) {
	store := failedOver(t)
	for number := 4; number <= 7; number++ { // the former primary had archived less, and shipped what was open
		segment := postgres.Segment{Timeline: 1, Number: uint64(number), SegSize: seg}
		if err := store.Delete(t.Context(), repository.TimelinePrefix(buckettest.Lineage, 1)+segment.Name()); err != nil {
			t.Fatal(err)
		}
	}
	ship(t, store, 1, 4)
	r := read(t, store, Question{Cluster: "shop", Namespace: "demo", Target: Target{Timeline: 2}}).Reach
	if r.Missing != "000000010000000000000004" || r.Last.Number != 3 {
		t.Errorf("%+v", r)
	}
}
