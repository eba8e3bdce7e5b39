package pace

import (
	"time"
)

// How soon to look again at what no watch tells of: the agents' answers.
const (
	BusyInterval    = time.Second
	UnknownInterval = 5 * time.Second
	QuietInterval   = 15 * time.Second
	// RestInterval is for a cluster of which all is as it should be. Its agents are asked all the time, and their news wake it.
	RestInterval = time.Minute
)

// Spread is a pause, a quarter less or more of it, by a number between 0 and 1: what began at once, after a start, isn't repeated at once for
// ever.
func Spread(pause time.Duration, random float64) time.Duration {
	return time.Duration(float64(pause) * (0.75 + random/2))
}
