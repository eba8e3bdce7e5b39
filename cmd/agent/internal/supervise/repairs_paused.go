package supervise

import (
	"context"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// repairsPaused is until when nothing is restarted, rewound or cloned by itself, for people; empty: it is.
func (l *latest) repairsPaused() string {
	repair := l.config().Repair
	if !repair.Paused(time.Now()) {
		return ""
	}
	return repair.PausedUntil.UTC().Format(time.RFC3339)
}

// holdBack publishes what is not done while repairs are paused; empty: nothing.
func (i *instance) holdBack(what string) {
	if i.set(func(status *agentapi.Status) { status.HeldBack = what }) && what != "" {
		i.Log.Warn("repairs are paused", "heldBack", what)
	}
}

// held rests without a server if one ended by itself, or can't be started, while repairs are paused. Whoever was the primary gives the
// lease to a member, unless failover is paused as well.
func (r *runner) held(ctx context.Context, want elect.Want) (is bool, err error) {
	until := r.latest.repairsPaused()
	switch {
	case until == "":
		r.fallen = ""
		r.holdBack("")
		return false, nil
	case r.fallen == "" || want.Role == elect.Stop:
		return false, nil
	}
	r.holdBack("PostgreSQL is not started again.")
	r.election.report(func(server *elect.Server) { server.Mode, server.Hopeless = elect.Down, true })
	return true, r.restHeld(ctx, fmt.Sprintf("%s. PostgreSQL is not started again before %s, as repairs are paused (spec.repair).", r.fallen, until))
}

// restHeld rests for a moment.
func (r *runner) restHeld(ctx context.Context, why string) error {
	limited, cancel := context.WithTimeout(ctx, loopTick)
	defer cancel()
	return changed(ctx, r.restAs(limited, agentapi.StateStopped, why))
}

// heldFrom rests instead of making a copy fit, while repairs are paused.
func (r *runner) heldFrom(ctx context.Context, how method) (is bool, err error) {
	until := r.latest.repairsPaused()
	if until == "" {
		return false, nil
	}
	what := map[method]string{byCut: "WAL that the primary doesn't have is not removed.", byRewind: "The data is not rewound.", byClone: "The data is not cloned."}[how]
	r.holdBack(what)
	return true, r.restHeld(ctx, fmt.Sprintf("%s Repairs are paused until %s (spec.repair). %s", what, until, r.repair.message))
}

// heldUp says whether repairs are paused, and publishes what a running replica needs meanwhile.
func heldUp(s *server, needs string) bool {
	paused := s.latest.repairsPaused() != ""
	if !paused {
		needs = ""
	}
	s.holdBack(needs)
	return paused
}

// keepsReplaced says whether a copy that was replaced stays, however long ago that was. A pause is for people who look at what there is, but the server
// needs space more.
func (l *latest) keepsReplaced(scarce bool) bool {
	return l.keepsCopies() || l.repairsPaused() != "" && !scarce
}

// keepsCopies says whether copies that were replaced are to stay, whatever room they take.
func (l *latest) keepsCopies() bool {
	repair := l.config().Repair
	return repair != nil && repair.KeepCopies
}
