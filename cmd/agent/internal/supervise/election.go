package supervise

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/datagram"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/watchdog"
	"howdah.dev/howdah/pkg/agentapi"
)

// election is the instance's part in the election, and what that was told of the server. Any goroutine may use it.
type election struct {
	*member.Member
	words *datagram.Socket // nil: nobody is asked for its word

	mu     sync.Mutex
	server elect.Server
	sync   elect.Sync // that the server was told
	synced time.Time  // when
	waits  bool       // a commit was seen to wait since
	hangs  bool       // the disk doesn't respond, whatever becomes of the server
}

// report changes what the election knows of the server.
func (e *election) report(change func(*elect.Server)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.server)
	e.server.Stalled = e.hangs
	e.Report(e.server)
}

// stalls notes whether the disk has not answered for too long.
func (e *election) stalls(hangs bool) {
	e.mu.Lock()
	e.hangs = hangs
	e.mu.Unlock()
	e.report(func(*elect.Server) {})
}

// told notes whom a server that starts lets commits wait for.
func (e *election) told(sync elect.Sync) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sync, e.waits = sync, false
}

// changed notes that a running server was told for whom commits wait. It is neither the old nor the new one, until all
// processes have it.
func (e *election) changed(sync elect.Sync) {
	e.mu.Lock()
	e.sync, e.synced, e.waits = sync, time.Now(), false
	e.mu.Unlock()
	e.report(func(server *elect.Server) { server.Sync = elect.Sync{Quorum: -1} })
}

// unproven says that commits are to wait for replicas, and none has been seen to since the server was told.
func (e *election) unproven() (sync elect.Sync, is bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sync, e.server.Mode == elect.Primary && e.server.Sync.Quorum < 0 && e.sync.Quorum > 0 && !e.waits
}

// proven notes that a commit was seen to wait since the server was told of this.
func (e *election) proven(sync elect.Sync) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waits = e.waits || sync.Quorum == e.sync.Quorum && slices.Equal(sync.Members, e.sync.Members)
}

// settle notes from which position on commits wait for whom the server was told last. That they wait at all was seen. For whom is
// up to the processes that send WAL: each reads the setting before it takes the next answer of its replica, once the postmaster
// has told it.
func (e *election) settle(written uint64) {
	e.mu.Lock()
	sync, settled := e.sync, time.Since(e.synced) >= syncSettle && (e.waits || e.sync.Quorum == 0)
	e.mu.Unlock()
	e.report(func(server *elect.Server) {
		if server.Mode == elect.Primary && server.Sync.Quorum < 0 && settled {
			server.Sync, server.SyncSince = sync, written
		}
	})
}

// written notes how far the primary has written WAL.
func (e *election) written(now replicate.Written) {
	e.report(func(server *elect.Server) {
		if server.Mode == elect.Primary {
			server.Position = agentapi.Position{Timeline: now.Timeline, LSN: uint64(now.LSN)}
			server.Checkpoint = elect.End{Timeline: now.CheckpointTimeline, LSN: uint64(now.Checkpoint)}
		}
	})
}

// deserted says whether no replica was left when the server was told to end.
func (e *election) deserted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server.Deserted
}

// answers says whether there is a primary to follow that is up, by its own word.
func (e *election) answers(want elect.Want) bool {
	_, answers := e.Leader()
	return answers && want.Role == elect.Follow && want.Leader.Name != ""
}

// replaceable: there is somebody who may take over.
func (e *election) replaceable() bool {
	status := e.Status()
	return status != nil && len(status.Members) > 0
}

// defaultMaxLag is how far a replica may lag and still take over, where nothing else is asked for.
const defaultMaxLag = 16 << 20

// electorate is a cluster as the election sees it.
func electorate(config agentapi.Config) elect.Config {
	out := elect.Config{Alone: config.Instances <= 1, MaxLag: defaultMaxLag, Begins: config.DataInstance}
	out.ByWord = config.Failover != nil && config.Failover.Renewal == agentapi.RenewalMembers
	out.Limits, out.Failover = limitsOf(config), failoverOf(config.Failover, time.Now(), watchdog.Now())
	for i := range max(1, config.Instances) {
		out.Peers = append(out.Peers, fmt.Sprintf("%s-%d", config.Cluster, i))
	}
	out.Failover.Delayed = slices.Sorted(maps.Keys(config.DelaySeconds))
	if s := config.Synchronous; s != nil {
		out.Number, out.Required, out.Degrade = s.Number, s.Required, s.Degrade
	}
	if config.MaxLagBytes > 0 {
		out.MaxLag = uint64(config.MaxLagBytes)
	}
	return out
}

// newElection makes the instance's part in the election of a cluster.
func newElection(ctx context.Context, i *instance, config agentapi.Config, f *fencing) *election {
	self, peers := i.self(ctx, config), i.peers(config)
	e := &election{}
	e.Member = member.New(member.Options{
		Namespace: config.Namespace, Lease: config.Lease, API: i.kubernetes(),
		Self:  self,
		Peers: peers,
		Now:   watchdog.Now, Permit: f.permit, Kill: f.fence, Detach: i.detach, Log: i.Log,
		Readers: i.poolers.Leaving,
		Locate:  func(ctx context.Context) (agentapi.Position, error) { return e.locate(ctx, i) },
	}, electorate(config))
	if i.Datagrams != nil {
		e.words = datagram.New(i.Datagrams, datagram.Options{
			Self: i.Pod, Generation: config.DataGeneration, Port: i.WordPort, Peers: peers, Election: member.Word{Member: e.Member}, Log: i.Log,
		})
		e.Words = e.words
	}
	return e
}

// self is the instance as the election takes it, with what its volume says before a server runs on it.
func (i *instance) self(ctx context.Context, config agentapi.Config) elect.Self {
	known := i.known(ctx, config.DataGeneration)
	return elect.Self{
		Name: i.Pod, UID: i.PodUID, Address: i.Address,
		Generation: config.DataGeneration, Original: i.Volume.Original(config.DataGeneration), Whole: known.whole,
		Standby: known.standby, Timeline: known.timeline, Checkpoint: known.checkpoint,
		Started: time.Now().UTC().Format(time.RFC3339),
	}
}

// locate asks the server of a replica where it is, for somebody who builds on it. This instance has to know the same by then: it may be
// the one that is to take over, and would find out up to a second later.
func (e *election) locate(ctx context.Context, i *instance) (agentapi.Position, error) {
	position, err := i.locate(ctx)
	if err == nil {
		e.report(func(server *elect.Server) {
			if server.Mode == elect.Replica {
				server.Position = position
			}
		})
	}
	return position, err
}

// carryWords has the members ask each other for their word, and answer, until the context ends.
func (e *election) carryWords(membership context.Context) {
	if e.words != nil {
		go e.words.Run(membership)
	}
}

// AgreeWord takes in the key with which another instance signs its questions.
func (e *election) AgreeWord(key agentapi.WordKey) agentapi.WordAnswer {
	if e.words == nil {
		return agentapi.WordAnswer{Pod: e.Self.Name, Message: "this instance gets no datagrams"}
	}
	return e.words.Agree(key)
}

func (o *Options) peers(config agentapi.Config) member.Peers {
	if o.Peers != nil {
		return o.Peers
	}
	return &member.HTTPS{Domain: config.PodDomain, TLSDir: agentapi.PeerTLSDir, API: o.kubernetes(), Namespace: config.Namespace}
}

func (o *Options) kubernetes() member.API {
	if o.Kubernetes == nil {
		return outside{}
	}
	return o.Kubernetes
}

// outside is the API of an agent outside Kubernetes.
type outside struct{ member.API }

func (outside) Get(context.Context, string, any) error                 { return kube.ErrOutside }
func (outside) Merge(context.Context, string, string, any, any) error  { return kube.ErrOutside }
func (outside) Create(context.Context, string, string, any, any) error { return kube.ErrOutside }
