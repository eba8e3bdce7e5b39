package pace

import (
	"time"
)

// How soon to look again at what no watch tells of: the agents' answers.
const (
	BusyInterval    = time.Second
	UnknownInterval = 5 * time.Second
	QuietInterval   = 15 * time.Second
)
