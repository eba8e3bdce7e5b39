package survey

import (
	"fmt"
	"testing"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/buckettest"
)

// failedOver is an archive that has a failover in segment 5: what the former primary archived behind it, in segments 5 to
// 7 of timeline 1, is on no way. Timeline 2 has segments 5 and 6, and timeline 3 just begins.
func failedOver(t *testing.T) *mem.Store {
	t.Helper()
	store := buckettest.New(t, 4, 5, 6, 7)
	archive := wal.New(store)
	put := func(name string, content string, info wal.Info) {
		t.Helper()
		if err := archive.Put(t.Context(), buckettest.Lineage, name, []byte(content), info); err != nil {
			t.Fatal(err)
		}
	}
	left := postgres.LSN(5*seg + 0x100)
	put("00000002.history", fmt.Sprintf("1\t%s\tfailover\n", left), wal.Info{Writer: "w"})
	put("00000003.history", fmt.Sprintf("1\t%s\tfailover\n2\t%s\tfailover\n", left, postgres.LSN(7*seg+0x100)), wal.Info{Writer: "w"})
	for n := uint64(5); n <= 6; n++ {
		s, at := postgres.Segment{Timeline: 2, Number: n, SegSize: seg}, buckettest.Minute(int(n)+10)
		info := wal.Info{Writer: "w", EndLSN: s.End(), LastCommit: &at}
		if n == 5 { // what was written before the failover is in it once more
			info.RestorePoints = []wal.RestorePoint{
				{Name: "p", LSN: 5*seg + 8, Time: buckettest.Minute(5)}, {Name: "q", LSN: left + 8, Time: at},
			}
		}
		put(s.Name(), string(rune(n)), info)
	}
	return store
}

func TestAfterAFailoverTheNewestTimelineWithWALIsFollowed(t *testing.T) {
	for name, q := range map[string]Question{
		"of a cluster":  {Cluster: "shop", Namespace: "demo"},
		"from a backup": {Lineage: buckettest.Lineage, BackupID: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			l := read(t, failedOver(t), q)
			if r := l.Reach; r.Timeline != 2 || r.Last.Name() != "000000020000000000000006" || r.Segments != 4 || r.Missing != "" ||
				l.Left || r.LastCommit == nil || !r.LastCommit.Equal(buckettest.Minute(16)) {
				t.Errorf("%+v, left %t", r, l.Left)
			}
		})
	}
}

func TestATimelineThatWasLeftCanBeChosen(t *testing.T) {
	l := read(t, failedOver(t), Question{Cluster: "shop", Namespace: "demo", Target: Target{Timeline: 1}})
	if r := l.Reach; r.Timeline != 1 || r.Last.Name() != "000000010000000000000007" || !l.Left {
		t.Errorf("%+v, left %t", r, l.Left)
	}
	l = read(t, failedOver(t), Question{Cluster: "shop", Namespace: "demo", Target: Target{Timeline: 9}})
	if v := Judge(Report{Lineages: []Lineage{*l}}, Target{Timeline: 9}, dead); v.Refusal == "" {
		t.Errorf("one that there is not: %+v", v)
	}
}

func TestARestorePointCountsOnceAndOnlyOnTheWay(t *testing.T) {
	for name, test := range map[string]struct {
		target Target
		want   postgres.LSN // 0: none
	}{
		"one before the failover, archived twice": {Target{RestorePoint: "p"}, 5*seg + 8},
		"one behind it":             {Target{RestorePoint: "q"}, 5*seg + 0x108},
		"one that isn't on the way": {Target{RestorePoint: "q", Timeline: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := read(t, failedOver(t), Question{Cluster: "shop", Namespace: "demo", Target: test.target})
			if found := len(l.Points); found > 1 || (found == 1) != (test.want != 0) || found == 1 && l.Points[0].LSN != test.want {
				t.Errorf("%+v", l.Points)
			}
		})
	}
}

func TestABackupThatWasTakenOnALeftTimelineIsPassedOver(t *testing.T) {
	stray := head("stray", 0x6000100, clock(12, 0))
	l := Lineage{Heads: []*backup.Head{head("old", 0x4000100, clock(11, 0)), stray}}
	l.Path = postgres.TimelineHistory{Timeline: 2, Ancestors: []postgres.TimelineSwitch{{Timeline: 1, LSN: 0x5000100}}}
	if got := l.choose(Target{}); got == nil || got.ID != "old" {
		t.Errorf("for the newest timeline: %+v", got)
	}
	l.Path = postgres.TimelineHistory{Timeline: 1}
	if got := l.choose(Target{}); got != stray {
		t.Errorf("for the timeline itself: %+v", got)
	}
}

func TestTheLineageThatTheClusterWritesGoesBeforeAYoungerOne(t *testing.T) {
	store := buckettest.New(t, 4)
	younger := "7-g9"
	buckettest.Claim(t, store, younger, buckettest.Minute(30))
	for present, want := range map[string]string{"": younger, buckettest.Lineage: buckettest.Lineage, younger: younger} {
		owners, err := lineagesOf(t.Context(), store, Question{Cluster: "shop", Namespace: "demo", Present: present})
		if err != nil || len(owners) != 2 || owners[0].Lineage != want {
			t.Errorf("%q writes: %+v, %v", present, owners, err)
		}
	}
}
