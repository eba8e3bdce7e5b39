package inventory

import (
	"cmp"
	"slices"

	"howdah.dev/howdah/pkg/backup/retention"
)

// Loses says that a plan removes something of the lineage, as far as names tell.
func (l *Lineage) Loses(plan retention.Plan) bool {
	return len(plan.Going()) > 0 || l.WALGoing(plan) > 0
}

// WALGoing is how many WAL segments a plan removes: those before the first that stays, but for what the backups that stay need for
// themselves.
func (l *Lineage) WALGoing(plan retention.Plan) int64 {
	needed, going := l.needed(plan), uint64(0)
	for _, run := range l.WAL {
		if first, end := run.First.Number, min(run.Last.Number+1, plan.KeepWAL); first < end {
			going += end - first - (needed.before(end) - needed.before(first))
		}
	}
	return int64(going)
}

// stretch is a row of segments that are needed, from a number up to another that isn't in it.
type stretch struct {
	first, end uint64
	sum        uint64 // of the segments in the stretches before it
}

// stretches don't meet, and are in order.
type stretches []stretch

// needed are the segments that the backups which stay need for themselves.
func (l *Lineage) needed(plan retention.Plan) stretches {
	stays := map[string]bool{}
	for _, v := range plan.Verdicts {
		stays[v.ID] = !v.Goes()
	}
	var all stretches
	for _, b := range l.Backups {
		if stays[b.ID] && b.First <= b.Last {
			all = append(all, stretch{first: b.First, end: b.Last + 1})
		}
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.first, b.first) })
	return all.joined()
}

// joined joins what meets.
func (s stretches) joined() (joined stretches) {
	for _, next := range s {
		last := len(joined) - 1
		if last >= 0 && next.first <= joined[last].end {
			joined[last].end = max(joined[last].end, next.end)
			continue
		}
		if last >= 0 {
			next.sum = joined[last].sum + joined[last].end - joined[last].first
		}
		joined = append(joined, next)
	}
	return joined
}

// before is how many of them there are before one.
func (s stretches) before(number uint64) uint64 {
	i, _ := slices.BinarySearchFunc(s, number, func(s stretch, number uint64) int { return cmp.Compare(s.first, number) })
	if i == 0 {
		return 0
	}
	last := s[i-1]
	return last.sum + min(last.end, number) - last.first
}
