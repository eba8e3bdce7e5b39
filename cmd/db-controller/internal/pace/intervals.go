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
