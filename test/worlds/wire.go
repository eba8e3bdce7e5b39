package worlds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"howdah.dev/howdah/cmd/db-controller/dbcontroller"
	"howdah.dev/howdah/pkg/agentapi"
)

// wire leads a process of the db-controller to the agents.
type wire struct{ process *process }

var _ dbcontroller.Agents = wire{}

var errRefused = errors.New("connection refused")

// reach the agent of a pod. One that is cut off never answers.
func (w wire) reach(ctx context.Context, target dbcontroller.Target) (*server, error) {
	if w.process.dead {
		return nil, errDead
	}
	pod, _, _ := strings.Cut(target.Host, ".")
	s := w.process.world.pg.of(pod)
	switch {
	case w.process.world.kube.silent(target.IP):
		<-ctx.Done()
		return nil, ctx.Err()
	case s == nil || s.ip != target.IP:
		return nil, errRefused
	}
	return s, nil
}

// Status is what the agent of a pod says.
func (w wire) Status(ctx context.Context, target dbcontroller.Target) (*agentapi.Status, error) {
	s, err := w.reach(ctx, target)
	if err != nil {
		return nil, err
	}
	if s.config == nil {
		return nil, errRefused
	}
	status := &agentapi.Status{
		Pod: s.pod, DataGeneration: s.generation, State: s.state, Message: s.message, ConfigHash: s.config.Hash(), Role: "replica",
		Timeline: s.term, Reinit: s.reinit, Adoption: &agentapi.Adoption{Number: s.volume.adoption, DataGeneration: s.volume.adopted},
	}
	if d := s.volume.data[s.volume.adopted]; d != nil {
		status.Adoption.Whole, status.Adoption.SystemIdentifier, status.Adoption.MajorVersion = d.whole, d.system, d.major
	}
	if s.config.Declared != nil {
		status.Declared = &agentapi.DeclaredStatus{Hash: s.config.Declared.Hash()}
	}
	if d := s.data(); d != nil && d.whole {
		status.SystemIdentifier, status.Version = d.system, fmt.Sprintf("%d.1", d.major)
	}
	for _, generation := range slices.Sorted(maps.Keys(s.volume.data)) {
		status.Copies = append(status.Copies, agentapi.Copy{ID: generation, Of: generation})
	}
	if s.leads {
		status.Role = "primary"
	}
	if s.config.Instances > 1 {
		w.elected(s, status)
	}
	return status, nil
}

// elected adds what an agent says that isn't alone.
func (w wire) elected(s *server, status *agentapi.Status) {
	status.Election = &agentapi.ElectionStatus{Term: s.term, Switchover: s.switched, Waiting: s.message}
	for _, other := range w.process.world.pg.all {
		switch {
		case other.leads && other.holds && other.generation == s.generation && (s.leads == (other == s)):
			status.Election.Leader = other.pod
		case s.leads && other.streams && !other.node.cut:
			status.Election.Members = append(status.Election.Members, other.pod)
		}
	}
	if s.config.Synchronous != nil {
		status.Election.Quorum = s.config.Synchronous.Number
	}
	if !s.leads {
		status.Replication = &agentapi.ReplicationStatus{Streaming: s.streams}
	}
}

// Restart is done at once.
func (w wire) Restart(ctx context.Context, target dbcontroller.Target, _ string) error {
	_, err := w.reach(ctx, target)
	return err
}

// Switchover has a replica that follows take over, after it was sent everything.
func (w wire) Switchover(ctx context.Context, target dbcontroller.Target, request agentapi.SwitchoverRequest) error {
	s, err := w.reach(ctx, target)
	if err != nil || !s.leads || s.switched != nil && s.switched.Token == request.Token {
		return err
	}
	p := w.process.world.pg
	heir := p.of(request.To)
	if request.To == "" {
		heir = p.of(p.heir(s))
	}
	lease, record := p.lease()
	if heir == nil || !heir.streams || heir.node.cut || heir.stopping || heir.generation != s.generation || lease == nil {
		s.switched = &agentapi.SwitchoverStatus{Token: request.Token, State: agentapi.SwitchoverRefused, Message: "nobody can take over", Untouched: true}
		return nil
	}
	heir.volume.data[s.generation] = s.data().copied()
	record.LastHolder, record.Least = s.pod, len(s.data().rows)
	p.hold(lease, heir.pod, record)
	s.switched = &agentapi.SwitchoverStatus{Token: request.Token, State: agentapi.SwitchoverDone}
	heir.switched = s.switched
	p.demote(s, "it hands over to "+heir.pod)
	return nil
}

// Reinit has a replica clone its data again.
func (w wire) Reinit(ctx context.Context, target dbcontroller.Target, request agentapi.ReinitRequest) error {
	s, err := w.reach(ctx, target)
	if err == nil && !s.leads {
		delete(s.volume.data, s.generation)
		s.streams, s.reinit = false, &agentapi.ReinitStatus{Token: request.Token, State: agentapi.ReinitDone}
	}
	return err
}

// Fault is of failover drills, of which there are none here.
func (w wire) Fault(ctx context.Context, target dbcontroller.Target, _ agentapi.FaultRequest) error {
	_, err := w.reach(ctx, target)
	return err
}
