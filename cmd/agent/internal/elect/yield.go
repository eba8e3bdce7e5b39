package elect

import (
	"cmp"

	"howdah.dev/howdah/pkg/agentapi"
)

// AskedPosition takes in that somebody asks how far this instance is. True: the lease may be taken by the answer. So it must only be
// given once no WAL is received any more, and none is until the Lease is known to be another: a replica that continued to acknowledge
// commits of the previous primary would make its own answer wrong. Time limits fence that primary, but they are no help where a
// clock stood still.
//
// Whoever asks with an older version of the Lease can't take it. Nor does anybody by the word of a replica that has promised its
// primary to follow.
func (c *Core) AskedPosition(now Time, request agentapi.PositionRequest) bool {
	known := c.lease.record
	if known == nil || c.holds || request.Ended || c.Promised(now) {
		return false
	}
	asked := Record{Version: cmp.Or(request.Version, known.Version)}
	if known.newer(&asked) {
		return false
	}
	c.yielded = yielded(asked.Version)
	return true
}

// yielded is the version of the Lease that somebody may take by this instance's position; empty: none.
type yielded string

// still says whether the Lease may be as it was when the position was given.
func (y yielded) still(record *Record) bool {
	return y != "" && record != nil && !record.newer(&Record{Version: string(y)})
}
