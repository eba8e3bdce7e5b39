package elect

import "howdah.dev/howdah/pkg/agentapi"

// contact is when a holder was last known to reach somebody: the API server, or another instance. It matters only while the lease has no
// members. Nobody can take the lease then by the rules, but a person can give it away, and so can a second pod of the holder's name.
type contact struct{ at Time }

// note that somebody was reached by what was sent at a time.
func (c *contact) note(at Time) { c.at = max(c.at, at) }

// until when the holder advances by that.
func (c *contact) until(config *Config) Time {
	if config.Failover.Isolation == 0 || config.Alone || len(config.Peers) < 2 {
		return Forever
	}
	return c.at + config.Failover.Isolation
}

// reach asks the other instances whether they are there, when it is about time. Nobody takes the lease by their answers.
func (c *contact) reach(now Time, acts *Acts, config *Config, replicas *replicas, limits *Limits) {
	until := c.until(config)
	if until == Forever {
		return
	}
	if due := max(c.at+limits.Failsafe, c.at+config.Failover.Isolation/2); now < due {
		acts.Wake = min(acts.Wake, due)
		return
	}
	for name, known := range replicas.known {
		if known.Address != "" {
			acts.Ask = append(acts.Ask, Member{Name: name, Address: known.Address})
		}
	}
	sortMembers(acts.Ask)
	acts.Request = agentapi.PositionRequest{Ended: true}
	acts.Wake = min(acts.Wake, now+limits.Retry/2)
}
