// Package routing tells poolers whether to send clients to this instance, and lets them pause before a handover: they finish the
// transactions that are open and keep what their clients ask for next until there is a primary again.
package routing

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// heard is how long a pooler that asks no question still counts as connected.
	heard = 2 * time.Second
	// Patience is how long the server may wait for transactions to end.
	Patience = 5 * time.Second
)

// Facts are what the answers say of this instance, as of now.
type Facts struct {
	Pod, DataGeneration string
	// LeaseCreated is when the Lease was that Term is of.
	LeaseCreated string
	Term         int64
	// Leads: nobody else may be the primary at this moment.
	Leads bool
}

// Desk answers the poolers of a cluster. Any goroutine may use it.
type Desk struct {
	// Acknowledge is how long a pooler may take to say that it has begun to pause. One that is frozen or cut off delays nothing longer.
	// It is a second, if nobody sets it before the Desk is used.
	Acknowledge time.Duration

	facts func() Facts
	epoch int64 // tells the handovers of this process from those of an earlier one

	mu       sync.Mutex
	serving  bool
	handover string
	ends     time.Time // of the patience with it
	count    int64     // of changes
	changed  chan struct{}
	poolers  map[string]*pooler
	replicas []Replica
	seen     time.Time       // that they were, since clients may come here; zero: not yet
	leaving  map[string]bool // replicas that are about to end
}

// Replica is one that streams from this instance.
type Replica struct {
	agentapi.PoolerReplica
	// Lag is how many bytes of WAL it has yet to replay.
	Lag int64
}

// pooler is what one of them said last.
type pooler struct {
	last            time.Time
	open            int // questions that wait for an answer
	process         string
	sequence        int64
	pausing, paused string
	takeBack        bool
}

// connected says whether it asks, or has just asked.
func (p *pooler) connected() bool { return p.open > 0 || time.Since(p.last) < heard }

// New makes a desk.
func New(facts func() Facts) *Desk {
	return &Desk{Acknowledge: time.Second, facts: facts, epoch: time.Now().UnixNano(), changed: make(chan struct{}), poolers: map[string]*pooler{}, leaving: map[string]bool{}}
}

// Serve says whether clients may come here. Another word than the last one ends a handover, and who streamed from here before is forgotten. The same word
// ends none: what a new primary starts says it, too, some seconds later, and a handover may have been announced in between.
func (d *Desk) Serve(serving bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.serving == serving {
		return
	}
	d.replicas, d.seen = nil, time.Time{}
	clear(d.leaving)
	d.serving, d.handover = serving, ""
	d.change()
}

// Replicas are those that stream from here now, by name. Who comes and goes is told at once, and who lags with the next answer.
func (d *Desk) Replicas(now []Replica) {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := slices.EqualFunc(d.replicas, now, func(a, b Replica) bool { return a.PoolerReplica == b.PoolerReplica })
	known := !d.seen.IsZero()
	d.replicas, d.seen = now, time.Now()
	if !same || !known {
		d.wake()
	}
}

// Leaving says that a replica is about to end, so that nobody is sent there, or that it isn't.
func (d *Desk) Leaving(pod string, leaving bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leaving[pod] == leaving {
		return
	}
	if leaving {
		d.leaving[pod] = true
	} else {
		delete(d.leaving, pod)
	}
	d.wake()
}

// change lets everybody who waits look again. The caller has the lock.
func (d *Desk) change() {
	d.count++
	d.wake()
}

func (d *Desk) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Respond answers a pooler: at once where it doesn't know how things are, else when they change or after PoolerHold.
func (d *Desk) Respond(ctx context.Context, request agentapi.PoolerRequest) agentapi.PoolerAnswer {
	p := d.hear(request)
	defer d.leave(p)
	hold := time.NewTimer(agentapi.PoolerHold)
	defer hold.Stop()
	for {
		answer, changed := d.answer(request)
		if answer.Version != request.Known {
			return answer
		}
		select {
		case <-changed:
		case <-hold.C:
			answer, _ = d.answer(request)
			return answer
		case <-ctx.Done():
			return answer
		}
	}
}

// hear notes what a pooler says.
func (d *Desk) hear(request agentapi.PoolerRequest) *pooler {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, p := range d.poolers {
		if p.open == 0 && time.Since(p.last) > heard {
			delete(d.poolers, name)
		}
	}
	p := d.poolers[request.Pooler]
	if p == nil {
		p = &pooler{}
	}
	if request.Pooler != "" {
		d.poolers[request.Pooler] = p
	}
	p.open, p.last = p.open+1, time.Now()
	if p.process == request.Process && p.sequence > request.Sequence {
		return p // it was cut off for a later one, which has arrived before it
	}
	news := p.pausing != request.Pausing || p.paused != request.Paused
	p.process, p.sequence, p.pausing, p.paused, p.takeBack = request.Process, request.Sequence, request.Pausing, request.Paused, request.TakeBack
	if news {
		d.wake() // for who waits for it; the answers stay the same
	}
	return p
}

func (d *Desk) leave(p *pooler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.open, p.last = p.open-1, time.Now()
}

// answer is how things are, and what tells that they may have changed.
func (d *Desk) answer(request agentapi.PoolerRequest) (agentapi.PoolerAnswer, <-chan struct{}) {
	facts := d.facts()
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := agentapi.PoolerAnswer{
		Pod: facts.Pod, DataGeneration: facts.DataGeneration, LeaseCreated: facts.LeaseCreated, Term: facts.Term,
		Serving: d.serving && facts.Leads, Handover: d.handover,
	}
	if d.handover != "" {
		answer.HandoverSeconds = time.Until(d.ends).Seconds()
	}
	answer.Version = fmt.Sprintf("%d.%d.%s.%d.%t", d.epoch, d.count, facts.LeaseCreated, facts.Term, answer.Serving)
	if !request.ReadOnly {
		return answer, d.changed
	}
	if d.seen.IsZero() {
		answer.ReplicasUnknown = true
		answer.Version += "?"
		return answer, d.changed
	}
	answer.ReplicasSeconds = time.Since(d.seen).Seconds()
	for _, replica := range d.replicas {
		if replica.Lag <= request.MaxLagBytes && !d.leaving[replica.Pod] {
			answer.Replicas = append(answer.Replicas, replica.PoolerReplica)
		}
	}
	answer.Version += fmt.Sprint(answer.Replicas)
	return answer, d.changed
}

// TakeBack ends a handover: the server stays.
func (d *Desk) TakeBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handover != "" {
		d.handover = ""
		d.change()
	}
}

// Pause tells all poolers that the server is about to end, and waits until those that answer have paused, for as long as the patience
// allows or ctx lets it. It says how many have, and how many have not.
func (d *Desk) Pause(ctx context.Context) (paused, late int) {
	begin := time.Now()
	ctx, cancel := context.WithDeadline(ctx, begin.Add(Patience))
	defer cancel()
	d.mu.Lock()
	handover := fmt.Sprintf("%d.%d", d.epoch, d.count+1)
	d.handover, d.ends = handover, begin.Add(Patience)
	d.change()
	d.mu.Unlock()
	silent := time.NewTimer(d.Acknowledge)
	defer silent.Stop()
	for {
		paused, pausing, mute, changed := d.progress(handover)
		if pausing == 0 && (mute == 0 || time.Since(begin) >= d.Acknowledge) {
			return paused, mute
		}
		select {
		case <-changed:
		case <-silent.C:
		case <-ctx.Done():
			return paused, pausing + mute
		}
	}
}

// Against are the poolers that want the handover taken back: their transactions have not ended. One that said nothing of it is none of them.
func (d *Desk) Against() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, p := range d.poolers {
		if d.handover != "" && p.takeBack && p.connected() && p.pausing == d.handover && p.paused != d.handover {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// progress counts the connected poolers that have paused, that are about to, and that have said nothing of it.
func (d *Desk) progress(handover string) (paused, pausing, mute int, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.poolers {
		switch {
		case p.paused == handover:
			paused++
		case p.pausing == handover:
			pausing++
		case p.connected():
			mute++
		}
	}
	return paused, pausing, mute, d.changed
}
