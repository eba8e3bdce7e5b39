package supervise

import (
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// limitsOf a cluster are the time limits of its profile.
func limitsOf(config agentapi.Config) elect.Limits {
	if config.Failover == nil {
		return elect.DefaultLimits()
	}
	return elect.LimitsOf(config.Failover.Profile)
}

// failoverOf is what people have said of failover as the election takes it. A pause ends at a time of the clock on the wall; from here on
// the time until then is measured by the other clock.
func failoverOf(f *agentapi.Failover, wall time.Time, now elect.Time) elect.Failover {
	if f == nil {
		return elect.Failover{}
	}
	out := elect.Failover{Priorities: f.Priorities, Never: f.Never, Fenced: f.Fenced, Isolation: time.Duration(f.IsolationSeconds) * time.Second}
	if left := f.PausedUntil.Sub(wall); left > 0 {
		out.Paused, out.Pause = now+left, f.PausedUntil.UTC().Format(time.RFC3339)
	}
	return out
}

// paused says whether nobody is to replace a primary that fails.
func (l *latest) paused() bool {
	f := l.config().Failover
	return f != nil && time.Now().Before(f.PausedUntil)
}
