package agentapi

import "time"

// Period is window.json: the maintenance window that is open, or else the next one.
type Period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Has says whether a moment is in the period.
func (p Period) Has(moment time.Time) bool { return !moment.Before(p.From) && moment.Before(p.To) }
