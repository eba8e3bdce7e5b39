package member

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/pkg/agentapi"
)

// What whoever runs the server tells the member, and asks it.

// Want is what the server shall be. Changed tells when it is another.
func (m *Member) Want() elect.Want {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want
}

// Changed has a value when Want is another than it was.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// Configure takes in another configuration of the cluster. The name of a Lease that was once known is not forgotten: it may
// have to say that nobody else is left.
func (m *Member) Configure(config elect.Config, lease string) {
	m.tell(func(core *elect.Core, _ time.Duration) {
		if lease != "" && lease != m.Lease {
			m.Lease = lease
			core.Reread()
		}
		core.Configure(config)
	})
}

// Found takes in what the volume says of its copy when it is looked at again.
func Found(m *Member, self elect.Self) {
	m.tell(func(core *elect.Core, _ time.Duration) { elect.Found(core, self) })
}

// Guard says that the server may accept writes from now on; it is watched from here on until it is reported to be down.
// False: the permission for that is not there any more.
func (m *Member) Guard() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !leads(m.want, m.Now()) {
		return false
	}
	m.guarded = true
	m.Permit(m.want.Until)
	return true
}

// Leads says whether nobody else may be the primary at this moment.
func (m *Member) Leads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return leads(m.want, m.Now())
}

func leads(want elect.Want, now time.Duration) bool {
	return want.Role == elect.Lead && want.Until > now
}

// Report takes in how the server is.
func (m *Member) Report(server elect.Server) {
	m.mu.Lock()
	before := m.server.Mode
	m.server = server
	if harmless(server.Mode) && !harmless(before) { // a word that was late says nothing of a server that was guarded since
		m.guarded = false
		m.Permit(elect.Forever)
	}
	m.mu.Unlock()
	m.tell(func(core *elect.Core, now time.Duration) { core.Observe(now, server) })
}

// harmless: it accepts no writes, and won't before it is guarded.
func harmless(mode elect.Mode) bool { return mode == elect.Down || mode == elect.Replica }

// Leave says that the pod ends. Left is closed when nothing is left to do for it.
func (m *Member) Leave() {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	m.tell(func(core *elect.Core, _ time.Duration) { core.Leave() })
}

// Left is closed when the server of a pod that ends is down and the lease is somebody else's to take.
func (m *Member) Left() <-chan struct{} { return m.left }

// primaryFacts are what a primary knows for its replicas.
type primaryFacts struct {
	known  map[string]follower
	answer agentapi.FollowAnswer
}

// follower is a replica that has told where it is.
type follower struct {
	address string
	at      time.Duration
	stalled bool
}

// followerAge is after what time a replica that tells nothing is away.
const followerAge = 3 * time.Second

// Lead takes in what a primary's server says of its replicas, and what they are told when they ask. One whose disk doesn't respond gets
// no further, so it counts as away.
func (m *Member) Lead(followers map[string]elect.Follower, answer agentapi.FollowAnswer) {
	m.mu.Lock()
	now := m.Now()
	for name, f := range followers {
		known, told := m.primary.known[name]
		f.Address = known.address
		f.Streaming = f.Streaming && told && !known.stalled && now-known.at < followerAge
		followers[name] = f
	}
	m.primary.answer = answer
	m.mu.Unlock()
	m.tell(func(core *elect.Core, now time.Duration) { core.Follow(now, followers) })
}

// Followed answers a replica that tells how far it is.
func (m *Member) Followed(request agentapi.FollowRequest) agentapi.FollowAnswer {
	if request.Position.Generation == m.Self.Generation && m.Readers != nil {
		m.Readers(request.Position.Pod, request.Leaving)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if request.Position.Generation == m.Self.Generation {
		m.primary.known[request.Position.Pod] = follower{request.Address, m.Now(), request.Position.Stalled}
	}
	answer := m.primary.answer
	answer.Term = 0
	if record := m.core.Record(); record != nil && m.core.Holds() && m.server.Mode == elect.Primary {
		answer.Term = record.Term
	}
	return answer
}

// leaderFacts are what a replica knows of its primary.
type leaderFacts struct {
	name   string
	answer agentapi.FollowAnswer
	at     time.Duration
}

// Leader is what the primary that is followed has answered lately; false: it doesn't respond.
func (m *Member) Leader() (agentapi.FollowAnswer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := m.leader.name != "" && m.leader.name == m.want.Leader.Name && m.Now()-m.leader.at < followerAge && m.leader.answer.Term == m.want.Term
	return m.leader.answer, fresh
}

const followPause = time.Second

// follow tells the primary each second where this replica is.
func (m *Member) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if leader := m.Want().Leader; leader.Name != "" && leader.Address != "" {
			m.followOnce(ctx, leader)
		}
		pause := followPause
		if _, answers := m.Leader(); !answers {
			pause /= 4 // it is waited for
		}
		select {
		case <-ctx.Done():
		case <-m.greet:
		case <-time.After(pause):
		}
	}
}

func (m *Member) followOnce(ctx context.Context, leader elect.Member) {
	ctx, cancel := context.WithTimeout(ctx, failsafeTime)
	defer cancel()
	answer, err := m.Peers.Follow(ctx, leader, agentapi.FollowRequest{Position: m.Position(), Address: m.Self.Address, Leaving: m.departing.Load()})
	if err != nil {
		m.Log.Debug("the primary doesn't respond", "primary", leader.Name, "error", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leader = leaderFacts{leader.Name, answer, m.Now()}
}

// Leave tells the primary that this replica is about to end, until Stay is called. It says whether there is one that may have heard it.
func Leave(ctx context.Context, m *Member) bool {
	leader := m.Want().Leader
	if m.departing.Store(true); leader.Name == "" || leader.Address == "" {
		return false
	}
	m.followOnce(ctx, leader)
	return true
}

// Stay says that this replica accepts connections.
func Stay(m *Member) { m.departing.Store(false) }

// Holds says whether this instance has the lease.
func (m *Member) Holds() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.Holds()
}

// Located is the position of the own server at this moment, for somebody who builds on it. What is not known of it stays
// zero; an error is a server that should know and doesn't respond, or a replica that still receives WAL though it must not.
func (m *Member) Located(ctx context.Context, request agentapi.PositionRequest) (agentapi.Position, error) {
	yields := false
	m.tell(func(core *elect.Core, now time.Duration) { yields = core.AskedPosition(now, request) })
	position := m.Position()
	position.Timeline, position.LSN, position.Streaming = 0, 0, false
	if !position.Replica {
		return position, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if yields {
		if err := m.Detach(ctx); err != nil {
			return position, err
		}
	}
	live, err := m.Locate(ctx)
	if err == nil && yields && live.Streaming {
		err = errors.New("the replica still receives WAL")
	}
	position.Timeline, position.LSN, position.Streaming = live.Timeline, live.LSN, live.Streaming
	return position, err
}

// Positions asks all members of the Lease how far they are, where the own server has ended, and returns what those say that are up as
// replicas. One that doesn't respond within half a second is left out.
func Positions(ctx context.Context, m *Member) (positions []agentapi.Position) {
	m.mu.Lock()
	var members []elect.Member
	if record := m.core.Record(); record != nil {
		members = slices.DeleteFunc(slices.Clone(record.Members), func(to elect.Member) bool { return to.Name == m.Self.Name })
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answers := make(chan *agentapi.Position, len(members))
	for _, to := range members {
		go func() {
			position, err := m.Peers.Position(ctx, to, agentapi.PositionRequest{Ended: true})
			if err != nil {
				m.Log.Warn("a member does not report its WAL position", "member", to.Name, "error", err)
				answers <- nil
				return
			}
			answers <- &position
		}()
	}
	for range members {
		if p := <-answers; p != nil && p.Replica && p.Timeline > 0 && p.Generation == m.Self.Generation {
			positions = append(positions, *p)
		}
	}
	return positions
}

// Position of the own server, as it was told last.
func (m *Member) Position() agentapi.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	position := m.server.Position
	position.Pod, position.Generation, position.Replica = m.Self.Name, m.Self.Generation, m.server.Mode == elect.Replica
	if record := m.core.Record(); record != nil {
		position.Term, position.LeaseCreated = record.Term, record.Created
	}
	position.Promised, position.Stalled = m.core.Promised(m.Now()), m.server.Stalled
	return position
}

// Failsafe answers a primary that can't reach the API server.
func (m *Member) Failsafe(request agentapi.FailsafeRequest) (answer agentapi.FailsafeAnswer) {
	m.tell(func(core *elect.Core, now time.Duration) { answer = core.AskedFailsafe(now, request) })
	answer.Pod = m.Self.Name
	return answer
}

// Switchover asks the primary to give its role away.
func (m *Member) Switchover(request agentapi.SwitchoverRequest) (answer agentapi.SwitchoverStatus) {
	m.tell(func(core *elect.Core, _ time.Duration) { answer = core.Switchover(request) })
	return answer
}

// TakeBack ends a switchover before the server has begun to end, if that is possible.
func TakeBack(m *Member, reason string) (taken bool) {
	m.tell(func(core *elect.Core, _ time.Duration) { taken = elect.TakeBack(core, reason) })
	return taken
}

// Status of the election as it is known here; nil: there is none.
func (m *Member) Status() *agentapi.ElectionStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	record := m.core.Record()
	if record == nil || m.Lease == "" {
		return nil
	}
	status := &agentapi.ElectionStatus{
		Leader: record.Holder, LeaseCreated: record.Created, Term: record.Term, Quorum: record.Quorum, Failsafe: m.core.Failsafe(), Waiting: m.want.Why,
		LeaseAgeSeconds: m.core.Age(m.Now()).Seconds(),
	}
	status.Degraded = elect.Degraded(m.core)
	if record.Holder == m.Self.Name && (!m.core.Holds() || m.core.Alone()) {
		status.Leader = "" // it was, and may be again; other instances are made once it is
	}
	for _, member := range record.Members {
		status.Members = append(status.Members, member.Name)
	}
	slices.Sort(status.Members)
	noted(status, elect.RenewalOf(m.core, m.Now()))
	if switchover := m.core.SwitchoverStatus(); switchover.Token != "" {
		status.Switchover = &switchover
	}
	return status
}

// Addresses of the instances that are known, by name.
func (m *Member) Addresses() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	addresses := map[string]string{}
	if record := m.core.Record(); record != nil {
		for _, member := range record.Members {
			addresses[member.Name] = member.Address
		}
		addresses[record.Holder] = record.Address
	}
	for name, f := range m.primary.known {
		addresses[name] = f.address
	}
	maps.DeleteFunc(addresses, func(name, address string) bool { return name == "" || address == "" })
	return addresses
}
