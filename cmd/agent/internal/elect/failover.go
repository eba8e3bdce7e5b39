package elect

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Failover is what people have said about who replaces a primary, and when.
type Failover struct {
	// Priorities by instance; agentapi.DefaultPriority where there is none. They order instances that have the same, and no others.
	Priorities map[string]int
	// Never become primary automatically.
	Never []string
	// Delayed instances replay WAL late. As replicas they never become primary, nor does any commit wait for them.
	Delayed []string
	// Fenced instances run no PostgreSQL.
	Fenced []string
	// Isolation is for how long a primary without members continues when it reaches neither the API server nor another instance; 0: for ever.
	Isolation time.Duration
	// Until when nobody replaces a primary that fails, and the same for people.
	Paused Time
	Pause  string
}

func (f *Failover) priority(name string) int {
	if priority, found := f.Priorities[name]; found {
		return priority
	}
	return agentapi.DefaultPriority
}

// order of two that have the same: negative if the first one comes before.
func (f *Failover) order(a, b string) int {
	return cmp.Or(f.byPriority(a, b), cmp.Compare(a, b))
}

func (f *Failover) byPriority(a, b string) int { return cmp.Compare(f.priority(b), f.priority(a)) }

func (f *Failover) never(name string) bool {
	return slices.Contains(f.Never, name) || f.delayed(name)
}

func (f *Failover) delayed(name string) bool { return slices.Contains(f.Delayed, name) }
func (f *Failover) fenced(name string) bool  { return slices.Contains(f.Fenced, name) }
func (f *Failover) paused(now Time) bool     { return now < f.Paused }

// ends says whether this instance is to be without a server from now on, as its pod ends or as it is fenced.
type ends struct{ leaving, fenced bool }

func (e ends) any() bool { return e.leaving || e.fenced }

// why there is no server, for people.
func (e ends) why(name string) string {
	if e.leaving || !e.fenced {
		return ""
	}
	return fmt.Sprintf("spec.failover.fenced names %s, so its PostgreSQL stays stopped until it is removed from there.", name)
}

// reluctant says why this instance leaves it to others to replace a primary; empty: it doesn't. A primary that gave the lease up did so
// because somebody wanted it to, so a pause is no reason then. And who was named by a person takes over.
func (c *candidate) reluctant() string {
	failover, r := &c.config.Failover, c.record
	switch {
	case r.Holder != "" && failover.paused(c.now):
		c.wait(failover.Paused)
		return fmt.Sprintf("Automatic failover is paused until %s (spec.failover.pausedUntil), so no instance takes over from %s before that.", failover.Pause, r.Holder)
	case failover.delayed(c.self.Name):
		return failover.lateReplica(c.self.Name)
	case failover.never(c.self.Name) && (r.Holder != "" || r.Successor != c.self.Name):
		return fmt.Sprintf("%s never becomes primary automatically, because spec.failover.instances says never: true for it.", c.self.Name)
	}
	return ""
}

// lateReplica says that an instance is a delayed replica, and what a person can do.
func (f *Failover) lateReplica(name string) string {
	return fmt.Sprintf("%s is a delayed replica and doesn't become primary: remove it from spec.delayedReplicas if it has to.", name)
}

// unwilling adds what a person can do where the only instance that may have an acknowledged commit is one that never takes over.
func (f *Failover) unwilling(name string) string {
	if !f.never(name) {
		return ""
	}
	if f.delayed(name) {
		return " An acknowledged commit could be on it alone. " + f.lateReplica(name)
	}
	return fmt.Sprintf(" It never becomes primary automatically, because spec.failover.instances says never: true for it, and an acknowledged commit could be on it "+
		"alone: set never: false for %s, or wait for the previous primary.", name)
}
