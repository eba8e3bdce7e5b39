package supervise

import (
	"context"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/poolers"
	"howdah.dev/howdah/pkg/agentapi"
)

// withPoolers is a publisher that tells poolers at once what it tells clients by way of the API server.
type withPoolers struct {
	Publisher
	desk *poolers.Desk
}

// Set says whether clients may come here.
func (p withPoolers) Set(ready bool) {
	p.desk.Serve(ready)
	p.Publisher.Set(ready)
}

// Withdraw says that no client may come here any more.
func (p withPoolers) Withdraw(ctx context.Context) {
	p.desk.Serve(false)
	p.Publisher.Withdraw(ctx)
}

// Yield leaves it to another primary to say where clients shall go.
func (p withPoolers) Yield() {
	p.desk.Serve(false)
	p.Publisher.Yield()
}

// poolerFacts are what poolers are told of this instance.
func (s *State) poolerFacts() poolers.Facts {
	s.mu.Lock()
	facts := poolers.Facts{Pod: s.status.Pod, DataGeneration: s.status.DataGeneration}
	elected := s.member
	s.mu.Unlock()
	if elected == nil {
		return facts
	}
	// While an orderly end is under way it is still the primary, and nobody else is.
	want := elected.Want()
	facts.Leads = want.Until > elected.Now() && (want.Role == elect.Lead || want.Role == elect.Stop && want.Orderly)
	if status := elected.Status(); status != nil {
		facts.Term = status.Term
	}
	return facts
}

// Attend answers a pooler, when what it knows is no longer true, or after a while.
func (s *Supervisor) Attend(ctx context.Context, request agentapi.PoolerRequest) agentapi.PoolerAnswer {
	return s.poolers.Attend(ctx, request)
}

// pausePoolers lets the poolers end their transactions before a primary ends. Nobody waits where clients come directly.
func (s *server) pausePoolers(ctx context.Context) {
	if s.as != primaryMode {
		return
	}
	if paused, late := s.poolers.Pause(ctx); paused+late > 0 {
		s.Log.Info("poolers were told that PostgreSQL is about to end", "paused", paused, "late", late)
	}
}
