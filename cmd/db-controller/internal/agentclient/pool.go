package agentclient

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
)

// ErrNotAsked is the error of a pass that needs answers which were asked for since the one before: it has written nothing, and
// its cluster is woken as soon as they are there.
var ErrNotAsked = fmt.Errorf("the agents are being asked: %w", flow.ErrStale)

const (
	// concurrent is how many agents are asked at once, and concurrentSuspects how many of those that didn't respond the last time: however
	// many these are, nobody else waits for them.
	concurrent, concurrentSuspects = 64, 64
	// liveAge is how long answers count as live that no pass has looked at yet.
	liveAge = 3 * time.Second
	// refreshAge is how old answers are when a look has them asked for again.
	refreshAge = 500 * time.Millisecond
	// tick is how often it is looked whom to ask.
	tick = time.Second
)

// StatusClient gets the status of one agent.
type StatusClient interface {
	Status(ctx context.Context, target Target) (*agentapi.Status, error)
}

// Instance is a pod whose agent may answer.
type Instance struct {
	Target
	// Incarnation changes whenever there is reason to expect something else of the agent: another pod, address or container, or
	// readiness that has come or gone.
	Incarnation string
	// Doubtful: it is likely not to answer.
	Doubtful bool
}

// Answers of the agents of one cluster.
type Answers struct {
	// ByPod are those of agents that answered when they were asked last. They are shared, so nobody changes them.
	ByPod map[string]*agentapi.Status
	// Silent are those that were asked and have not answered since.
	Silent map[string]Silence
	// Known: each agent was asked at least once.
	Known bool
	// Live: all of them were asked since the previous look and a moment ago. What can't be undone is decided on such answers only.
	// Each is live for one look, so no two passes act on the same one.
	Live bool
	// Age since the questions were answered last.
	Age time.Duration
}

// Pool asks agents outside of the reconcile workers, a bounded number at a time, and keeps the last answers. It wakes a cluster
// when they differ from those that its last pass has seen. They are asked when a pass looks at the cluster, and every pace.QuietInterval in any
// case: so a cluster at which nothing happens costs few passes. An agent that doesn't respond is asked less and less often.
type Pool struct {
	client StatusClient
	now    func() time.Time
	// random is the jitter of pauses, from 0 to 1.
	random func() float64

	mu       sync.Mutex
	wake     func(types.NamespacedName)
	clusters map[types.NamespacedName]*kept
	healthy  lane
	suspect  lane
}

// NewPool returns a pool that knows no cluster.
func NewPool(client StatusClient, now func() time.Time, random func() float64) *Pool {
	return &Pool{
		client: client, now: now, random: random, wake: func(types.NamespacedName) {},
		clusters: map[types.NamespacedName]*kept{}, healthy: lane{limit: concurrent}, suspect: lane{limit: concurrentSuspects},
	}
}

// WakeBy says how a cluster is woken.
func (p *Pool) WakeBy(wake func(types.NamespacedName)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake = wake
}

// Look returns what is known of a cluster's agents without waiting for any. Those that have not been asked for a while are asked
// meanwhile.
func (p *Pool) Look(cluster types.NamespacedName, instances map[string]Instance) Answers {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.clusters[cluster]
	if k == nil {
		k = &kept{}
		p.clusters[cluster] = k
	}
	now := p.now()
	k.follow(instances)
	answers := k.answers(now)
	k.seen = k.digest()
	switch {
	case !answers.Known:
		p.ask(cluster, k, true)
	case !answers.Live && answers.Age >= refreshAge:
		p.ask(cluster, k, false)
	}
	return answers
}

// Run asks agents again and again, until the context ends.
func (p *Pool) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.AskAgain() //nolint:contextcheck // an answer is awaited beyond the end of who asked
		}
	}
}

// AskAgain asks the agents of each cluster that have not been asked for a while. What they have to say that is new wakes it.
func (p *Pool) AskAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for name, k := range p.clusters {
		if k.pending == 0 && !now.Before(k.due) {
			p.ask(name, k, false)
		}
	}
}

// Demand has all agents of a cluster asked at once, and the cluster woken afterwards whatever they say.
func (p *Pool) Demand(cluster types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.clusters[cluster]; k != nil {
		p.ask(cluster, k, true)
	}
}

// Forget a cluster that no longer exists.
func (p *Pool) Forget(cluster types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clusters, cluster)
}

// ask asks the agents of a cluster that are not being asked already; unless it is demanded, only those whose pause is over.
func (p *Pool) ask(cluster types.NamespacedName, k *kept, demanded bool) {
	if k.pending == 0 {
		k.round++
	}
	k.demanded = k.demanded || demanded
	for _, agent := range k.agents {
		if agent.round == k.round || !demanded && p.now().Before(agent.next) {
			continue
		}
		agent.round = k.round
		k.pending++
		p.submit(cluster, k, agent)
	}
	if k.pending == 0 && k.demanded { // there is nobody to ask
		k.end(p.now(), p.random())
		p.wake(cluster)
	}
}

func (p *Pool) submit(cluster types.NamespacedName, k *kept, agent *heard) {
	target := agent.Target
	to, limit := &p.healthy, timeLimit
	if agent.failures > 0 || !agent.asked && agent.Doubtful {
		to = &p.suspect
	}
	if agent.failures > 0 {
		limit = suspectTimeLimit
	}
	to.add(&p.mu, func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		status, err := p.client.Status(ctx, target)
		p.answered(cluster, k, agent, status, err)
	})
}

// answered keeps an answer. The last of a round wakes the cluster, if there is something new or a pass has demanded it.
func (p *Pool) answered(cluster types.NamespacedName, k *kept, agent *heard, status *agentapi.Status, err error) {
	mark := digestOf(status)
	p.mu.Lock()
	defer p.mu.Unlock()
	agent.keep(status, mark, err, p.now(), p.random())
	if k.pending--; k.pending > 0 || p.clusters[cluster] != k {
		return
	}
	if demanded := k.end(p.now(), p.random()); demanded || k.digest() != k.seen {
		p.wake(cluster)
	}
}
