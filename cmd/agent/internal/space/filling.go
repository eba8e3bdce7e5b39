package space

import "time"

const (
	window  = 10 * time.Minute // that the rate is taken over
	settled = time.Minute      // before which there is no rate
	horizon = 7 * 24 * time.Hour
)

// Filling estimates when a volume will be full, by how fast it filled of late.
type Filling struct {
	samples []sample
}

type sample struct {
	at   time.Time
	used int64
}

// Add notes what is used.
func (f *Filling) Add(u Usage, now time.Time) {
	for len(f.samples) > 1 && now.Sub(f.samples[1].at) >= window {
		f.samples = f.samples[1:]
	}
	f.samples = append(f.samples, sample{now, u.Used()})
}

// FullAt is when clients could only read; zero: the volume doesn't fill, or not soon.
func (f *Filling) FullAt(u Usage) time.Time {
	if len(f.samples) == 0 {
		return time.Time{}
	}
	first, last := f.samples[0], f.samples[len(f.samples)-1]
	span, grown := last.at.Sub(first.at), last.used-first.used
	if span < settled || grown <= 0 {
		return time.Time{}
	}
	room := max(0, u.Spare()-fullMark(u.Total))
	left := float64(room) / float64(grown) * float64(span)
	if left > float64(horizon) {
		return time.Time{}
	}
	return last.at.Add(time.Duration(left)).UTC().Truncate(time.Second)
}
