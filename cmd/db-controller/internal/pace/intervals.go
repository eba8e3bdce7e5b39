package pace

import (
	"time"
)

// How soon to look again at what no watch tells of: the agents' answers.
const (
	StaleInterval   = 20 * time.Millisecond
	BusyInterval    = time.Second
	UnknownInterval = 5 * time.Second
	QuietInterval   = 15 * time.Second
)
