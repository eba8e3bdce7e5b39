package supervise

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	reinitAttempts = 3  // of a requested clone, until the instance continues with the copy that it had
	pastTokens     = 32 // that are remembered
)

// reinits are the clones that people request, one at a time. A request is on the volume before it is acted on, so that it is carried out
// once, whatever ends in between. Any goroutine may use it.
type reinits struct {
	volume generation.Volume
	state  *State
	log    *slog.Logger

	mu   sync.Mutex
	last generation.Reinit
	err  error // why it is not known
}

func newReinits(volume generation.Volume, state *State, log *slog.Logger) *reinits {
	r := &reinits{volume: volume, state: state, log: log}
	r.last, _, r.err = generation.LastReinit(volume)
	if r.err != nil {
		log.Error("which clone was requested last is not known, so none is made on request", "error", r.err)
	}
	r.publish()
	return r
}

// Reinit takes note of a request, unless that was done before.
func (s *Supervisor) Reinit(request agentapi.ReinitRequest) (agentapi.ReinitStatus, error) {
	g, refusal := generation.Generation{}, ""
	election := s.Election()
	switch {
	case election == nil:
		return agentapi.ReinitStatus{}, fmt.Errorf("%s takes no part in an election yet", s.Pod)
	case s.leads():
		refusal = fmt.Sprintf("%s is the primary, so there is no instance that it could be cloned from. Switch over to another instance first.", s.Pod)
	default:
		var err error
		if g, err = s.Volume.Resolve(s.Status().DataGeneration); err != nil {
			refusal = fmt.Sprintf("%s has no complete copy of the data, so it is cloned anyway.", s.Pod)
		}
	}
	return s.reinits.take(request.Token, g, refusal)
}

// leads says whether this instance is the primary, or about to be.
func (s *Supervisor) leads() bool {
	status := s.Status()
	return status.Role == rolePrimary || status.Election != nil && status.Election.Leader == s.Pod
}

// take in a request for a copy in place of this one, or refuse it.
func (r *reinits) take(token string, g generation.Generation, refusal string) (agentapi.ReinitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return agentapi.ReinitStatus{}, r.err
	case token == r.last.Token:
		return statusOf(r.last), nil
	case slices.Contains(r.last.Past, token):
		return agentapi.ReinitStatus{Token: token, State: agentapi.ReinitRefused, Message: "There was a later request."}, nil
	}
	next := generation.Reinit{Token: token, State: agentapi.ReinitRunning, DataGeneration: g.DataGeneration(), Replaces: g.ID}
	if refusal != "" {
		next.State, next.Message = agentapi.ReinitRefused, refusal
	}
	if r.last.Token != "" {
		past := append(slices.Clone(r.last.Past), r.last.Token)
		next.Past = past[max(0, len(past)-pastTokens):]
	}
	if err := r.record(next); err != nil {
		return agentapi.ReinitStatus{}, err
	}
	r.log.Info("a new clone was requested", "token", token, "state", next.State, "replaces", next.Replaces)
	return statusOf(next), nil
}

// record makes a state the last one. The lock is held.
func (r *reinits) record(next generation.Reinit) error {
	if err := generation.RecordReinit(r.volume, next); err != nil {
		return fmt.Errorf("the request for a clone can't be recorded: %w", err)
	}
	r.last = next
	r.publish()
	return nil
}

func (r *reinits) publish() {
	if r.last.Token == "" {
		return
	}
	told := statusOf(r.last)
	r.state.set(func(status *agentapi.Status) { status.Reinit = &told })
}

func statusOf(reinit generation.Reinit) agentapi.ReinitStatus {
	return agentapi.ReinitStatus{Token: reinit.Token, State: reinit.State, Message: reinit.Message}
}

// running: a request has not come to its end.
func (r *reinits) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.State == agentapi.ReinitRunning
}

// wants says whether this copy is to be replaced by a clone.
func (r *reinits) wants(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.State == agentapi.ReinitRunning && r.last.Replaces == id
}

// tried notes that a clone in place of this copy failed. After some, the copy is used again.
func (r *reinits) tried(id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.State != agentapi.ReinitRunning || r.last.Replaces != id {
		return
	}
	next := r.last
	next.Attempts++
	next.Message = fmt.Sprintf("Attempt %d of %d failed: %s", next.Attempts, reinitAttempts, sentence(err))
	if next.Attempts >= reinitAttempts {
		next.State = agentapi.ReinitFailed
		next.Message = fmt.Sprintf("The clone failed %d times, so the instance continues with the copy that it had. The last time: %s", next.Attempts, sentence(err))
	}
	r.end(next)
}

// settle notes what came of a request, when a server runs on a copy: as the primary, or as a replica that streams.
func (r *reinits) settle(g generation.Generation, leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.last
	switch {
	case next.State != agentapi.ReinitRunning:
		return
	case next.DataGeneration != g.DataGeneration():
		next.State, next.Message = agentapi.ReinitRefused, "The cluster runs on other data since then, and the instance got its copy of that."
	case next.Replaces != g.ID:
		next.State, next.Message = agentapi.ReinitDone, fmt.Sprintf("The new copy is %s. The previous one, %s, is kept for a while.", g.ID, next.Replaces)
	case leads:
		next.State, next.Message = agentapi.ReinitRefused, "The instance became the primary meanwhile."
	default:
		return
	}
	r.end(next)
}

// end records a state that came of work, which is noted again if that fails. The lock is held.
func (r *reinits) end(next generation.Reinit) {
	if err := r.record(next); err != nil {
		r.log.Error("the outcome of a requested clone can't be recorded yet", "state", next.State, "error", err)
		return
	}
	r.log.Info("a requested clone has ended", "token", next.Token, "state", next.State, "message", next.Message)
}
