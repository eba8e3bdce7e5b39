package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
)

// longestFreeze is how long a drill may keep a postmaster frozen. An agent that does its work ends it after frozenTime.
const longestFreeze = 30 * time.Second

// faults are those that failover drills cause here, one at a time. Each is on the volume before it is caused, so that it is caused once,
// whatever ends in between. Any goroutine may use it.
type faults struct {
	volume generation.Volume
	state  *State
	log    *slog.Logger
	orders chan faultOrder // for the loop

	mu   sync.Mutex
	last generation.Fault
	err  error // why it is not known
}

// faultOrder is a request on its way to the loop.
type faultOrder struct {
	request agentapi.FaultRequest
	answer  chan faultAnswer // takes one without waiting
}

type faultAnswer struct {
	status agentapi.FaultStatus
	err    error
}

func newFaults(volume generation.Volume, state *State, log *slog.Logger) *faults {
	f := &faults{volume: volume, state: state, log: log, orders: make(chan faultOrder)}
	f.last, f.err = generation.LastFault(volume)
	if f.err != nil {
		log.Error("which fault was caused last is not known, so none is caused", "error", f.err)
	}
	f.publish()
	f.settle(f.last.Token, "The agent was ended as well.")
	return f
}

// Fault causes a fault for a failover drill, unless that was done before.
func (s *Supervisor) Fault(ctx context.Context, request agentapi.FaultRequest) (agentapi.FaultStatus, error) {
	if status, known, err := s.faults.known(request.Token); known || err != nil {
		return status, err
	}
	order := faultOrder{request: request, answer: make(chan faultAnswer, 1)}
	select {
	case s.faults.orders <- order:
	case <-ctx.Done():
		return agentapi.FaultStatus{}, fmt.Errorf("%s runs no PostgreSQL that a fault could hit: %w", s.Pod, ctx.Err())
	}
	select {
	case answer := <-order.answer:
		return answer.status, answer.err
	case <-ctx.Done():
		return agentapi.FaultStatus{}, ctx.Err()
	}
}

func (f *faults) known(token string) (agentapi.FaultStatus, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told(), f.last.Token == token, f.err
}

// cause a fault in a running server. The loop calls it.
func (f *faults) cause(order faultOrder, as mode, server *postmaster.Server) {
	status, err := f.hit(order.request, as, server)
	order.answer <- faultAnswer{status, err}
}

func (f *faults) hit(request agentapi.FaultRequest, as mode, server *postmaster.Server) (agentapi.FaultStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last.Token == request.Token {
		return f.told(), nil
	}
	act := map[string]func() error{
		agentapi.FaultKill: server.Kill, agentapi.FaultFreeze: func() error { return f.freeze(request.Token, server) },
	}[request.Fault]
	next := generation.Fault{Token: request.Token, Fault: request.Fault, State: agentapi.FaultRunning}
	switch {
	case as != primaryMode:
		next.State, next.Message = agentapi.FaultRefused, "The instance is not the primary."
	case act == nil:
		next.State, next.Message = agentapi.FaultRefused, fmt.Sprintf("The agent does not know the fault %q.", request.Fault)
	}
	if err := f.record(next); err != nil {
		return agentapi.FaultStatus{}, err
	}
	f.log.Warn("a failover drill causes a fault", "token", next.Token, "fault", next.Fault, "state", next.State, "message", next.Message)
	if next.State == agentapi.FaultRefused {
		return f.told(), nil
	}
	return f.told(), act()
}

func (f *faults) freeze(token string, server *postmaster.Server) error {
	time.AfterFunc(longestFreeze+time.Second, func() { f.settle(token, fmt.Sprintf("It may have continued after %s.", longestFreeze)) })
	return server.Freeze(longestFreeze)
}

// ended notes that the server that the last fault may have hit has ended.
func (f *faults) ended() {
	f.mu.Lock()
	token := f.last.Token
	f.mu.Unlock()
	f.settle(token, "")
}

// settle notes that a fault is over.
func (f *faults) settle(token, how string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last.Token != token || f.last.State != agentapi.FaultRunning {
		return
	}
	next := f.last
	next.State = agentapi.FaultDone
	next.Message = map[string]string{
		agentapi.FaultKill: "The postmaster was killed.", agentapi.FaultFreeze: "The postmaster was frozen.",
	}[f.last.Fault]
	if how != "" {
		next.Message += " " + how
	}
	if err := f.record(next); err != nil {
		f.log.Error("the end of a fault can't be recorded yet", "error", err)
	}
}

// record makes a fault the last one. The lock is held.
func (f *faults) record(next generation.Fault) error {
	if f.err != nil {
		return f.err
	}
	if err := generation.RecordFault(f.volume, next); err != nil {
		return fmt.Errorf("the fault can't be recorded: %w", err)
	}
	f.last = next
	f.publish()
	return nil
}

func (f *faults) publish() {
	if f.last.Token == "" {
		return
	}
	told := f.told()
	f.state.set(func(status *agentapi.Status) { status.Fault = &told })
}

func (f *faults) told() agentapi.FaultStatus {
	return agentapi.FaultStatus{Token: f.last.Token, State: f.last.State, Message: f.last.Message}
}
