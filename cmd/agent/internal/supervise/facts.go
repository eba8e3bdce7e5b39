package supervise

import (
	"context"
	"fmt"
	"sync"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/watchdog"
	"howdah.dev/howdah/pkg/agentapi"
)

// facts are what the election knows of the server. Several goroutines add to them.
type facts struct {
	mu     sync.Mutex
	server elect.Server
	sync   elect.Sync // that the server has been told
	synced time.Time  // when

	stuck    time.Time // since when a replica makes no way though its primary answers; zero: it isn't
	followed time.Time // since when it streams; zero: it doesn't
	replayed uint64
	level    time.Time // when the replica had all that its primary had
	slots    map[string]uint64
	instance replicate.Instance // that follows
	remedy   way                // that a replica needs to follow
	reads    reading            // of the archive
	config   agentapi.Config    // the newest
	health   health
}

// config is the newest configuration, for other goroutines than that of loop.
func (r *runner) config() agentapi.Config {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	return r.facts.config
}

func (r *runner) configured(config agentapi.Config) {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	r.facts.config = config
}

// report changes what the election knows of the server.
func (r *runner) report(change func(*elect.Server)) {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	change(&r.facts.server)
	r.member.Report(r.facts.server)
}

// defaultMaxLag is how far behind a replica may be to take over, where nothing else is asked for.
const defaultMaxLag = 16 << 20

// electorate is a cluster as the election sees it.
func electorate(config agentapi.Config) elect.Config {
	out := elect.Config{Alone: config.Instances <= 1, MaxLag: defaultMaxLag, Begins: config.DataInstance}
	for i := range max(1, config.Instances) {
		out.Peers = append(out.Peers, fmt.Sprintf("%s-%d", config.Cluster, i))
	}
	if s := config.Synchronous; s != nil {
		out.Number, out.Required = s.Number, s.Required
	}
	if config.MaxLagBytes > 0 {
		out.MaxLag = uint64(config.MaxLagBytes)
	}
	return out
}

// told notes what whom commits wait for the server is told.
func (r *runner) told(sync elect.Sync) {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	r.facts.sync = sync
}

// elects says whether there is anybody to elect.
func (r *runner) elects() bool { return r.inputs.config.Instances > 1 }

// join makes the instance take part in the election, until life ends.
func (r *runner) join(life context.Context) {
	config := r.inputs.config
	r.configured(config)
	r.member = member.New(member.Options{
		Namespace: config.Namespace, Lease: config.Lease, API: r.kubernetes(),
		Self: elect.Self{
			Name: r.Pod, UID: r.PodUID, Address: r.Address,
			Generation: r.wanted, Original: r.Volume.Original(r.wanted), Whole: r.Volume.Whole(r.wanted),
			Started: time.Now().UTC().Format(time.RFC3339),
		},
		Peers: r.peers(config),
		Now:   watchdog.Now, Permit: r.permit, Kill: r.fence, Locate: r.locate, Log: r.Log,
	}, electorate(config))
	r.setMember(r.member)
	r.life = life
	r.guardWith()
	go r.member.Run(life)
	<-r.member.Changed() // the first word of what is wanted
}

// guardWith starts the watchdog where there is anybody else who could be primary.
func (r *runner) guardWith() {
	if r.Watchdog == nil || r.guarded || !r.elects() {
		return
	}
	r.guarded = true
	go r.Watchdog.Run(r.life)
}

func (r *runner) peers(config agentapi.Config) member.Peers {
	if r.Peers != nil {
		return r.Peers
	}
	return &member.HTTPS{Domain: config.PodDomain, TLSDir: agentapi.PeerTLSDir, API: r.kubernetes(), Namespace: config.Namespace}
}

func (r *runner) kubernetes() member.API {
	if r.Kubernetes == nil {
		return outside{}
	}
	return r.Kubernetes
}

// permit has the watchdog let the server of this volume go on until then, whichever copy it runs on.
func (r *runner) permit(until time.Duration) {
	if r.Watchdog == nil {
		return
	}
	if g, err := r.Volume.Current(); err == nil {
		r.Watchdog.Permit(r.margin(until), r.Volume.PGData(g))
	}
}

// margin is how much later than the agent the watchdog kills.
func (r *runner) margin(until time.Duration) time.Duration {
	limits := elect.DefaultLimits()
	if until >= elect.Forever-limits.Kill {
		return elect.Forever
	}
	return until + limits.Kill - limits.Fence
}

// fence ends the server of this volume, whichever copy it runs on. Its clients are another's already, however busy the loop is.
func (r *runner) fence() {
	r.publisher.Yield()
	if g, err := r.Volume.Current(); err == nil {
		postmaster.Fence(r.Volume.PGData(g))
	}
}

// outside is the API of an agent outside Kubernetes.
type outside struct{ member.API }

func (outside) Get(context.Context, string, any) error                { return kube.ErrOutside }
func (outside) Merge(context.Context, string, string, any, any) error { return kube.ErrOutside }
