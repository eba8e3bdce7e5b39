// Package member makes an instance a member of the election: it connects the core that decides (package elect) to the Lease, to
// the agents of the other instances and to the server of its own.
package member

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/pkg/agentapi"
)

// API is the part of the Kubernetes API that a member needs.
type API interface {
	Get(ctx context.Context, path string, into any) error
	Merge(ctx context.Context, path, manager string, patch, into any) error
	Create(ctx context.Context, path, manager string, object, into any) error
	Watch(ctx context.Context, folder, name, version string, each func(json.RawMessage) error) error
}

// Peers are the agents of the other instances.
type Peers interface {
	Position(ctx context.Context, to elect.Member, request agentapi.PositionRequest) (agentapi.Position, error)
	Failsafe(ctx context.Context, to elect.Member, request agentapi.FailsafeRequest) (agentapi.FailsafeAnswer, error)
	Follow(ctx context.Context, to elect.Member, request agentapi.FollowRequest) (agentapi.FollowAnswer, error)
	AgreeWord(ctx context.Context, to elect.Member, key agentapi.WordKey) (agentapi.WordAnswer, error)
}

// Words carries questions for the word of members. A question, or the answer, may be lost.
type Words interface {
	Ask(ctx context.Context, question elect.WordQuestion)
}

// Options of a member.
type Options struct {
	Namespace string
	Lease     string
	Self      elect.Self
	API       API
	Peers     Peers
	// Words of the members; nil: they can't be asked for them.
	Words Words
	// Now is a clock that this machine's processes agree on.
	Now func() time.Duration
	// Permit lets the server accept writes until then, for who watches over the agent.
	Permit func(until time.Duration)
	// Kill ends the server at once, whatever else is going on.
	Kill func()
	// Locate asks a server that accepts connections where it is.
	Locate func(ctx context.Context) (agentapi.Position, error)
	// Detach returns once a replica that is wanted to be detached receives no WAL any more.
	Detach func(ctx context.Context) error
	// Readers is told by a primary which replica is about to end, and has readers sent to others; nil: nobody is.
	Readers func(replica string, leaving bool)
	Log     *slog.Logger
}

const (
	writeTime    = 2 * time.Second        // of a request to the API server
	askTime      = 500 * time.Millisecond // of a question to another agent
	failsafeTime = time.Second
	retry        = time.Second // of what has failed
)

// Member of an election.
type Member struct {
	Options

	mu        sync.Mutex
	core      *elect.Core
	want      elect.Want
	departing atomic.Bool // the server of a replica is about to end
	server    elect.Server
	guarded   bool // the server may accept writes
	leader    leaderFacts
	primary   primaryFacts
	busy      map[string]bool // what is on its way
	known     known

	wake    chan struct{} // something was told to the core
	changed chan struct{} // want is another
	greet   chan struct{} // somebody else is to be followed
	left    chan struct{} // closed when the lease was given up by a pod that ends
	leaving bool
	begun   chan struct{} // closed when the first watch has brought the Lease, or won't
}

// New makes a member; Run makes it take part.
func New(options Options, config elect.Config) *Member {
	m := &Member{
		Options: options, core: elect.New(options.Self, config),
		busy: map[string]bool{}, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), greet: make(chan struct{}, 1), left: make(chan struct{}),
		begun: make(chan struct{}),
	}
	m.primary.known = map[string]follower{}
	return m
}

// Run takes part until ctx ends.
func (m *Member) Run(ctx context.Context) {
	go m.watch(ctx)
	go m.follow(ctx)
	go m.suspect(ctx)
	for {
		acts := m.step()
		m.perform(ctx, acts)
		timer := time.NewTimer(max(0, acts.Wake-m.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// tell changes what the core knows, and has it decide again.
func (m *Member) tell(change func(core *elect.Core, now time.Duration)) {
	m.mu.Lock()
	change(m.core, m.Now())
	m.mu.Unlock()
	poke(m.wake)
}

// step has the core decide. What can't wait is done here: a server that may not accept writes any more is killed.
func (m *Member) step() elect.Acts {
	m.mu.Lock()
	defer m.mu.Unlock()
	acts := m.core.Step(m.Now())
	before, want := m.want, acts.Want
	m.want = want
	if m.guarded {
		switch {
		case want.Role == elect.Lead || want.Role == elect.Stop && want.Orderly && want.Until > 0:
			m.Permit(want.Until)
		case want.Role == elect.Stop && want.Orderly: // it has until the watchdog's time
		case before.Role == elect.Lead || before.Orderly:
			m.Log.Error("the lease is lost, or the disk does not respond; PostgreSQL is killed, so that no write is accepted beside another primary's")
			go m.Kill()
		}
	}
	if m.leaving && !m.core.Holds() && m.server.Mode == elect.Down {
		select {
		case <-m.left:
		default:
			close(m.left)
		}
	}
	if !same(before, want) {
		m.Log.Info("decided the role of PostgreSQL", "role", roleNames[want.Role], "leader", want.Leader.Name, "term", want.Term, "why", want.Why)
		poke(m.changed)
		if before.Leader != want.Leader {
			poke(m.greet)
		}
	}
	return acts
}

// poke leaves a word for who waits, unless one lies there.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var roleNames = map[elect.Role]string{elect.Idle: "idle", elect.Stop: "stopped", elect.Lead: "primary", elect.Follow: "replica"}

// same says whether two wants ask for the same of PostgreSQL. How long it may continue is the watchdog's.
func same(a, b elect.Want) bool {
	return a.Role == b.Role && a.Leader == b.Leader && a.Detached == b.Detached && a.CampaignAsIs == b.CampaignAsIs && a.Term == b.Term && a.Timeline == b.Timeline && a.Orderly == b.Orderly && a.Why == b.Why &&
		fmt.Sprint(a.Sync) == fmt.Sprint(b.Sync)
}

func (m *Member) perform(ctx context.Context, acts elect.Acts) {
	if acts.Refresh {
		m.once("refresh", func() { m.refresh(ctx) })
	}
	if write := acts.Write; write != nil {
		go m.write(ctx, write)
	}
	for _, to := range acts.Ask {
		m.once("ask "+to.Name, func() {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			asked := m.Now()
			if position, err := m.Peers.Position(ctx, to, acts.Request); err == nil {
				m.tell(func(core *elect.Core, _ time.Duration) { core.Heard(asked, position) })
			}
		})
	}
	if question := acts.Word; question != nil && m.Words != nil {
		m.Words.Ask(ctx, *question)
	}
	if question := acts.Failsafe; question != nil {
		m.Log.Warn("the lease can't be renewed; the members are asked whether they still follow")
		for _, to := range question.Members {
			go m.askFailsafe(ctx, to, *question)
		}
	}
}

// once does something in the background, unless it is being done.
func (m *Member) once(what string, do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[what] {
		return
	}
	m.busy[what] = true
	go func() {
		do()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.busy, what)
	}()
}

// refresh reads the Lease, unless the first watch brings it.
func (m *Member) refresh(ctx context.Context) {
	if m.leaseName() != "" && m.brought(ctx) {
		return
	}
	record, err := m.readLease(ctx)
	if kube.IsNotFound(err) && m.Holds() {
		m.Log.Warn("the Lease was deleted; its holder creates it again", "lease", m.leaseName())
		m.tell(missing)
		return
	}
	if err != nil {
		m.Log.Warn("the Lease can't be read", "lease", m.leaseName(), "error", err)
		select { // the core asks again at once
		case <-ctx.Done():
		case <-time.After(retry / 2):
		}
		return
	}
	m.tell(func(core *elect.Core, now time.Duration) { core.SawLease(now, record) })
}

// missing has a holder write what it knows as a Lease without a version: one that is created. Nobody else may, because what they know
// may be of long ago.
func missing(core *elect.Core, now time.Duration) {
	if core.Holds() {
		core.SawLease(now, elect.Record{})
	}
}

// brought waits for the first watch, and says whether it has brought the Lease just now.
func (m *Member) brought(ctx context.Context) bool {
	select {
	case <-m.begun:
		return false // long ago
	default:
	}
	select {
	case <-m.begun:
		return m.version() != ""
	case <-time.After(writeTime):
	case <-ctx.Done():
	}
	return false
}

func (m *Member) write(ctx context.Context, write *elect.Write) {
	version, err := m.writeLease(ctx, write.Record)
	outcome := elect.Written
	switch {
	case kube.IsConflict(err):
		outcome = elect.Conflict
	case err != nil:
		outcome = elect.Unknown
		m.Log.Warn("the Lease can't be written", "lease", m.leaseName(), "error", err)
	}
	m.tell(func(core *elect.Core, now time.Duration) { core.Wrote(now, write, outcome, version) })
}

func (m *Member) askFailsafe(ctx context.Context, to elect.Member, question elect.Question) {
	ctx, cancel := context.WithTimeout(ctx, failsafeTime)
	defer cancel()
	answer, err := m.Peers.Failsafe(ctx, to, question.Request)
	if err != nil || !answer.Follows || answer.Pod != to.Name {
		m.Log.Warn("a member does not say that it follows", "member", to.Name, "answer", answer.Message, "error", err)
		return
	}
	m.tell(func(core *elect.Core, _ time.Duration) { core.HeardFailsafe(question.ID, to.Name, true) })
}

// watch tells the core of every change of the Lease. The first one begins with the Lease as it is, which saves a request.
func (m *Member) watch(ctx context.Context) {
	begin := sync.OnceFunc(func() { close(m.begun) })
	defer begin()
	for first := true; ctx.Err() == nil; {
		version := m.version()
		if m.leaseName() == "" || version == "" && !first { // nothing is to be seen, or nothing was read yet
			m.pause(ctx, retry/5)
			continue
		}
		err := m.API.Watch(ctx, m.folder(), m.leaseName(), version, func(object json.RawMessage) error {
			err := m.saw(object)
			begin()
			return err
		})
		begin()
		if err == nil || ctx.Err() != nil {
			first = false
			continue
		}
		m.Log.Warn("the Lease is not watched for a moment", "error", err)
		if first { // the server may not know how to begin like that
			first = false
			continue
		}
		m.pause(ctx, retry/2)
		m.once("refresh", func() { m.refresh(ctx) })
		m.pause(ctx, retry/2)
	}
}

func (m *Member) saw(object json.RawMessage) error {
	found := lease{}
	if err := json.Unmarshal(object, &found); err != nil {
		return err
	}
	record := m.known.read(&found)
	m.tell(func(core *elect.Core, now time.Duration) { core.SawLease(now, record) })
	return nil
}

func (m *Member) version() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if record := m.core.Record(); record != nil {
		return record.Version
	}
	return ""
}

func (m *Member) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
