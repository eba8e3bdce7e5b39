package pitr

import (
	"slices"
	"time"

	"howdah.dev/howdah/pkg/postgres"
)

// Recoverable is all that can be restored on the newest timeline of a lineage.
type Recoverable struct {
	// Windows, oldest first. Between two of them, times can't be restored.
	Windows []Window
	// Missing is the last segment without which there is a gap between two windows, or the last one ends too early. Its zero
	// value: none.
	Missing postgres.Segment
}

// Window is a stretch of time of which every point can be restored.
type Window struct {
	From, To time.Time // both included
	// Unsure: times later than To may be reached, too, for nobody looked at all the WAL without a commit behind it.
	Unsure bool
	// First is the backup that a restore to From begins with.
	First Backup
	// Reach that a restore to To follows. If it is Broken, the window ends there because of what is missing.
	Reach Reach
}

func (w *Window) endBefore(at time.Time) {
	w.To, w.Unsure = at.Add(-time.Microsecond), false
}

// Windows finds all times that can be restored without waiting for anything: exactly those for which Decide says Reachable of an
// archive that nobody writes.
func (g *Graph) Windows(headers Headers) (Recoverable, error) {
	measured := map[postgres.Segment]*Reach{}
	var reaches []Reach
	for _, b := range slices.Backward(g.Leading(g.newest)) {
		reach := g.Reach(b, g.newest)
		if err := reach.measureLike(measured[reach.Last()], headers); err != nil {
			return Recoverable{}, err
		}
		measured[reach.Last()] = &reach
		reaches = append(reaches, reach)
	}
	return g.recoverable(reaches), nil
}

// recoverable looks at one stretch of time after the other, from where a backup stopped to where the next one did: within it,
// a restore begins with the same backup.
func (g *Graph) recoverable(reaches []Reach) Recoverable {
	var found Recoverable
	times := stopTimes(reaches)
	joined := false
	for i, from := range times {
		reach := startAt(reaches, from)
		if reach.Broken() {
			found.Missing = reach.Missing
		}
		until := g.knownUntil(reach)
		if !reach.Covers() || until.Before(from) && !reach.Unsure {
			if joined {
				found.Windows[len(found.Windows)-1].endBefore(from)
			}
			joined = false
			continue
		}
		if joined {
			last := &found.Windows[len(found.Windows)-1]
			last.To, last.Unsure, last.Reach = until, reach.Unsure, *reach
		} else {
			found.Windows = append(found.Windows, Window{From: from, To: later(from, &until), Unsure: reach.Unsure, First: reach.Backup, Reach: *reach})
		}
		joined = i+1 < len(times) && (reach.Unsure || !until.Before(times[i+1]))
	}
	return found
}

// stopTimes are those of all backups, in order.
func stopTimes(reaches []Reach) []time.Time {
	var times []time.Time
	for _, reach := range reaches {
		times = append(times, reach.Backup.StopTime)
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

// startAt is the reach of the backup that a restore to a time begins with: of those that had stopped by then, the one that lies
// furthest ahead.
func startAt(reaches []Reach, at time.Time) *Reach {
	for i := range slices.Backward(reaches) {
		if !reaches[i].Backup.StopTime.After(at) {
			return &reaches[i]
		}
	}
	return nil
}
