package archive

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

func TestWhatIsAtRiskIsKnownByTheServersNotes(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(1000+seconds, 0).UTC() }
	const one, two, three = "000000010000000000000001", "000000010000000000000002", "000000010000000000000003"
	for name, test := range map[string]struct {
		notes   map[string]int64
		open    map[string]int64 // when segments were written last
		waiting int
		since   time.Time
		risk    time.Duration
	}{
		"nothing is noted yet":          {},
		"all is archived, none written": {notes: map[string]int64{one + ".done": 0}, open: map[string]int64{two: -5}},
		"something is written":          {notes: map[string]int64{one + ".done": 70}, open: map[string]int64{two: 80}, risk: 30 * time.Second},
		"something is written for long": {notes: map[string]int64{one + ".done": 0}, open: map[string]int64{two: 5}, risk: time.Minute},
		"one waits":                     {notes: map[string]int64{one + ".done": 0, two + ".ready": 40}, waiting: 1, since: at(40), risk: 100 * time.Second},
		"the first waits":               {notes: map[string]int64{one + ".ready": 30}, waiting: 1, since: at(30), risk: 70 * time.Second},
		"one waits that comes late":     {notes: map[string]int64{one + ".ready": 10, two + ".done": 40, three + ".ready": 50}, waiting: 2, since: at(10), risk: 90 * time.Second},
		"only a history waits":          {notes: map[string]int64{one + ".done": 0, "00000002.history.ready": 50}, waiting: 1, risk: 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			touch := func(path string, seconds int64) {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, at(seconds), at(seconds)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(dir, "archive_status"), 0o700); err != nil {
				t.Fatal(err)
			}
			for note, seconds := range test.notes {
				touch(filepath.Join(dir, "archive_status", note), seconds)
			}
			for segment, seconds := range test.open {
				touch(filepath.Join(dir, segment), seconds)
			}
			got, err := readBacklog(dir)
			if err != nil {
				t.Fatal(err)
			}
			risk := got.atRisk(dir, postgres.DefaultSegSize, time.Minute, at(100))
			if got.waiting != test.waiting || !got.since.Equal(test.since) || risk != test.risk {
				t.Errorf("%+v, at risk %s", got, risk)
			}
		})
	}
}

func TestALongBacklogIsPushedInHaste(t *testing.T) {
	files := map[string]string{}
	for n := range 30 {
		files[fmt.Sprintf("%08X.history", n+2)] = fmt.Sprintf("1\t0/%X000000\treason\n", n+1)
	}
	a := newArchiver(t, mem.New(), files)
	if a.effort(a.target) != wal.Thorough {
		t.Error("before anything waits there is haste")
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		if err := a.askFor(name); err != nil {
			t.Fatal(err)
		}
	}
	for n, name := range names {
		if err := <-a.ask(name); err != nil {
			t.Fatal(err)
		}
		if n == 0 && a.effort(a.target) != wal.Hasty {
			t.Error("30 files wait, and there is no haste")
		}
		if err := os.Remove(filepath.Join(a.walDir, "archive_status", name+".ready")); err != nil {
			t.Fatal(err)
		}
	}
	if a.effort(a.target) != wal.Thorough {
		t.Error("all is pushed, and there is haste still")
	}
}

func TestWhoWaitsForTheStoreSendsLess(t *testing.T) {
	for name, test := range map[string]struct {
		pushes [][2]time.Duration // packing, sending
		waits  bool
	}{
		"nothing was pushed yet":         {nil, false},
		"a store nearby":                 {[][2]time.Duration{{40, 80}, {40, 120}}, false},
		"a store far away":               {[][2]time.Duration{{40, 1400}, {100, 700}}, true},
		"it was slow once, long ago":     {[][2]time.Duration{{40, 1400}, {40, 60}, {40, 60}, {40, 60}, {40, 60}}, false},
		"it has become slow just now":    {[][2]time.Duration{{40, 60}, {40, 60}, {40, 60}, {40, 1400}}, true},
		"the processor has become slow":  {[][2]time.Duration{{40, 200}, {400, 800}}, false},
		"a store far away, done in care": {[][2]time.Duration{{100, 700}, {100, 700}, {100, 700}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pace{}
			for _, push := range test.pushes {
				p.add(push[0], push[1])
			}
			if p.waitsForStore() != test.waits {
				t.Errorf("it waits for the store: %t", p.waitsForStore())
			}
		})
	}
}

func TestALongBacklogForASlowStoreIsPushedWithCare(t *testing.T) {
	a := newArchiver(t, mem.New(), nil)
	a.behind = true
	if a.effort(a.target) != wal.Hasty {
		t.Error("there is no haste before the store is known to be slow")
	}
	a.target.pace.add(time.Millisecond, time.Second)
	if a.effort(a.target) != wal.Thorough {
		t.Error("there is haste though the store is slow")
	}
}
