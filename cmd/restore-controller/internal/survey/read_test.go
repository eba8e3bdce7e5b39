package survey

import (
	"errors"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/restore-controller/internal/buckettest"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func read(t *testing.T, store *mem.Store, q Question) *Lineage {
	t.Helper()
	report, err := Read(t.Context(), store, q, func() time.Time { return clock(13, 0) })
	if err != nil || len(report.Lineages) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	return &report.Lineages[0]
}

func TestTheReachOfABackupIsReadFromTheBucket(t *testing.T) {
	l := read(t, buckettest.New(t, 4, 5, 6), Question{Cluster: "shop", Namespace: "demo", ClusterUID: "u"})
	r := l.Reach
	if l.Chosen == nil || l.Chosen.ID != "b" || r.Segments != 4 || r.First.Number != 3 || r.Last.Number != 6 || r.Missing != "" ||
		r.LastCommit == nil || !r.LastCommit.Equal(buckettest.Minute(6)) || r.EndLSN != 7*seg {
		t.Errorf("%+v", l)
	}
}

func TestAHoleEndsTheReach(t *testing.T) {
	r := read(t, buckettest.New(t, 4, 6), Question{Lineage: buckettest.Lineage, BackupID: "b"}).Reach
	if r.Missing != "000000010000000000000005" || r.Last.Number != 4 {
		t.Errorf("%+v", r)
	}
}

func TestARestorePointIsFoundInTheHeaders(t *testing.T) {
	l := read(t, buckettest.New(t, 4, 5, 6), Question{Cluster: "shop", Namespace: "demo", Target: Target{RestorePoint: "p"}})
	if len(l.Points) != 1 || l.Points[0].LSN != 5*seg+8 {
		t.Errorf("%+v", l.Points)
	}
}

func TestWhatTheRepositoryDoesNotKnowIsSaid(t *testing.T) {
	store := buckettest.New(t)
	for name, q := range map[string]Question{
		"a cluster":              {Cluster: "other", Namespace: "demo"},
		"another cluster's name": {Cluster: "shop", Namespace: "demo", ClusterUID: "v"},
		"a lineage":              {Lineage: "8-g0", BackupID: "b"},
		"a backup":               {Lineage: buckettest.Lineage, BackupID: "c"},
	} {
		if _, err := Read(t.Context(), store, q, time.Now); !errors.Is(err, ErrNotThere) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
