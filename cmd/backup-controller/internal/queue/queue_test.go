package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/howdah/test/testkit/cputime"
)

var start = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

// fixture is a queue, its clock, and whom it has woken.
type fixture struct {
	*Queue
	*testing.T
	now   time.Time
	woken []string
}

func newFixture(t *testing.T, limits Limits) *fixture {
	f := &fixture{T: t, now: start}
	f.Queue = New(limits, func() time.Time { return f.now })
	f.WakeBy(func(backup types.NamespacedName) { f.woken = append(f.woken, backup.Name) })
	if err := f.Recover(func() ([]Entry, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	return f
}

// backup is one by a name such as 2-b: the age of its object first, so that smaller numbers go first.
func backup(name, node, repository string, limit int) Entry {
	var minute int
	fmt.Sscan(name[:1], &minute)
	return Entry{
		UID: types.UID(name), Backup: types.NamespacedName{Namespace: "shop", Name: name}, Created: start.Add(time.Duration(minute) * time.Minute),
		Node: node, Repository: types.NamespacedName{Namespace: "shop", Name: repository}, RepositoryLimit: limit,
	}
}

func (f *fixture) begins(entry Entry) {
	f.Helper()
	if wait := f.Begin(entry); wait != "" {
		f.Errorf("%s waits: %s", entry.UID, wait)
	}
}

func (f *fixture) waits(entry Entry, because string) {
	f.Helper()
	if wait := f.Begin(entry); !strings.Contains(wait, because) || wait == "" {
		f.Errorf("%s waits because %q, want %q", entry.UID, wait, because)
	}
}

func (f *fixture) wakes(names ...string) {
	f.Helper()
	if !slices.Equal(f.woken, names) {
		f.Errorf("woken were %v, want %v", f.woken, names)
	}
	f.woken = nil
}

func TestEachLimitIsKeptAndNamed(t *testing.T) {
	for name, test := range map[string]struct {
		limits  Limits
		third   Entry
		because string
	}{
		"of all":                {Limits{All: 2}, backup("3", "n3", "c", 0), "is reached: 2 in the suite (backups.maxConcurrent "},
		"of the node":           {Limits{Node: 1}, backup("3", "n1", "c", 0), "is reached: 1 on node n1 (backups.maxConcurrentPerNode "},
		"of the repository":     {Limits{}, backup("3", "n3", "b", 1), "is reached: 1 in BackupRepository b (its spec.maxConcurrentBackups)"},
		"no limit":              {Limits{}, backup("3", "n1", "b", 0), ""},
		"none that is reached":  {Limits{All: 3, Node: 2}, backup("3", "n1", "b", 2), ""},
		"another's small limit": {Limits{}, backup("3", "n1", "a", 3), ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.limits)
			f.begins(backup("1", "n1", "a", 1))
			f.begins(backup("2", "n2", "b", 0))
			if test.because == "" {
				f.begins(test.third)
				return
			}
			f.waits(test.third, test.because)
			f.waits(test.third, test.because) // asking again changes nothing
		})
	}
}

func TestWhoWaitsBeginsInOrder(t *testing.T) {
	f := newFixture(t, Limits{All: 1})
	f.begins(backup("1", "n1", "a", 0))
	f.waits(backup("4", "n1", "a", 0), "1 in the suite")
	f.waits(backup("3", "n1", "a", 0), "1 in the suite")
	f.waits(backup("4", "n1", "a", 0), "Backups ahead in the queue: 1.")
	upgrade := backup("5", "n1", "a", 0)
	upgrade.Requested = true
	f.waits(upgrade, "1 in the suite")
	f.Leave("1")
	f.wakes("5")
	f.waits(backup("3", "n1", "a", 0), "1 in the suite") // the seat is the upgrade's
	f.begins(upgrade)
	f.Leave("5")
	f.wakes("3")
	f.Leave("5") // a second time
	f.wakes()
	f.Leave("3") // it can't begin any more: the next may
	f.wakes("4")
	f.begins(backup("4", "n1", "a", 0))
}

func TestWhoWaitsForAFullRepositoryKeepsNobodyElseWaiting(t *testing.T) {
	f := newFixture(t, Limits{All: 2})
	f.begins(backup("1", "n1", "a", 1))
	f.waits(backup("2", "n1", "a", 1), "BackupRepository a")
	f.begins(backup("3", "n1", "b", 0))
	f.waits(backup("4", "n1", "b", 0), "2 in the suite")
	f.Leave("3")
	f.wakes("4")
}

func TestARunningBackupBeginsAgainWhateverTheLimits(t *testing.T) {
	f := newFixture(t, Limits{All: 1})
	f.begins(backup("1", "n1", "a", 0))
	f.Running(backup("2", "n1", "a", 0)) // its Job was there before this process
	f.begins(backup("1", "n1", "a", 0))
	f.begins(backup("2", "n1", "a", 0))
	if running, waiting := f.Counts(); running != 2 || waiting != 0 {
		t.Error(running, waiting)
	}
}

func TestABackupOfWhichNothingIsHeardKeepsNoSeat(t *testing.T) {
	f := newFixture(t, Limits{All: 1})
	f.begins(backup("1", "n1", "a", 0))
	f.waits(backup("2", "n1", "a", 0), "in the suite")
	f.now = f.now.Add(forgetAfter / 2)
	f.waits(backup("3", "n1", "a", 0), "in the suite")
	f.now = f.now.Add(forgetAfter/2 + time.Second)
	f.begins(backup("3", "n1", "a", 0)) // 2 didn't ask again either
}

func TestANewProcessLetsNothingBeginBeforeItKnowsWhatRuns(t *testing.T) {
	q := New(Limits{All: 1}, func() time.Time { return start })
	if err := q.Recover(func() ([]Entry, error) { return nil, errors.New("away") }); err == nil {
		t.Fatal("no error")
	}
	recover := func() ([]Entry, error) { return []Entry{backup("1", "n1", "a", 0)}, nil }
	if err := q.Recover(recover); err != nil {
		t.Fatal(err)
	}
	if wait := q.Begin(backup("2", "n1", "a", 0)); wait == "" {
		t.Error("it begins beside what runs")
	}
	q.Leave("1") // it turns out to have ended
	if err := q.Recover(recover); err != nil {
		t.Fatal(err)
	}
	if wait := q.Begin(backup("2", "n1", "a", 0)); wait != "" {
		t.Error(wait)
	}
}

// TestWhoWaitsCostsLittleHoweverManyWait has ten thousand backups come due at once, ask again and end. Sorting all that wait for each of
// them takes a hundred times as long.
func TestWhoWaitsCostsLittleHoweverManyWait(t *testing.T) {
	const backups = 10_000
	f := newFixture(t, Limits{All: 50, Node: 4})
	entries := map[string]Entry{}
	cputime.Budget(t, 5*time.Second, func() {
		for range 2 { // each asks again while it waits
			for i := range backups {
				entry := backup(fmt.Sprint(i), fmt.Sprintf("n%d", i%500), fmt.Sprintf("r%d", i%1000), 0)
				entries[entry.Backup.Name] = entry
				f.Begin(entry)
			}
		}
		for i := range backups {
			f.Leave(types.UID(fmt.Sprint(i)))
			for _, name := range f.woken {
				f.Begin(entries[name])
			}
			f.woken = nil
		}
	})
	if running, waiting := f.Counts(); running != 0 || waiting != 0 {
		t.Errorf("%d run and %d wait", running, waiting)
	}
}
