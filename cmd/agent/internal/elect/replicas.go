package elect

import (
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// lookedApart is how much of the time between two looks at replicas counts: during the rest nobody looked.
const lookedApart = 2 * time.Second

// replicas are what a holder remembers of those that follow it, or did. Who is not seen is away only if somebody looked.
type replicas struct {
	known  map[string]*watched
	looked Time // when the server was asked last, or began
	since  End  // where the primary was when it was seen first on its timeline
}

// watched is what a holder remembers of a replica.
type watched struct {
	Follower
	most uint64 // that it had replayed
	away Time   // for how long it has not streamed, while somebody looked
}

// expected are the replicas of a new holder: the members of the record with which it took the lease.
func expected(now Time, members []Member) replicas {
	r := replicas{known: map[string]*watched{}, looked: now}
	for _, m := range members {
		r.known[m.Name] = &watched{Follower: Follower{Address: m.Address}}
	}
	return r
}

// note takes in what the server knows of its replicas. Those that are not named are away.
func (r *replicas) note(now Time, followers map[string]Follower) {
	for name, f := range followers {
		known := r.known[name]
		if known == nil {
			known = &watched{}
			r.known[name] = known
		}
		if f.Address == "" {
			f.Address = known.Address
		}
		known.Follower = f
		// One that has less than it had is another: its volume was rolled back, or it was cloned. It counts once it has everything again.
		known.Streaming = f.Streaming && f.Replayed >= known.most
		known.most = max(known.most, f.Replayed)
	}
	passed := min(now-r.looked, lookedApart)
	r.looked = now
	for name, known := range r.known {
		if _, found := followers[name]; !found {
			known.Streaming = false
		}
		if known.away += passed; known.Streaming {
			known.away = 0
		}
	}
}

// follow a primary: whoever has replayed less than where it was first seen may have nothing of its timeline yet.
func (r *replicas) follow(primary agentapi.Position) {
	if primary.Timeline > 0 && primary.Timeline != r.since.Timeline {
		r.since = End{Timeline: primary.Timeline, LSN: primary.LSN}
	}
}

// replayed is what a replica had at least; zero: it isn't known.
func (r *replicas) replayed(name string) End {
	known := r.known[name]
	if known == nil || known.most == 0 || r.since.Timeline == 0 || known.most < r.since.LSN {
		return End{}
	}
	return End{Timeline: r.since.Timeline, LSN: known.most}
}

// wait for all of them anew: the server that they follow has just begun.
func (r *replicas) wait(now Time) {
	r.looked = now
	for _, known := range r.known {
		known.away = 0
	}
}

func (r *replicas) stream(name string) bool {
	w := r.known[name]
	return w != nil && w.Streaming
}

func (r *replicas) anyStreams() bool {
	for _, w := range r.known {
		if w.Streaming {
			return true
		}
	}
	return false
}

// unreplayed is how much of what a replica had received it had yet to replay when it was looked at last; 0: no more than a replica may lag.
func (r *replicas) unreplayed(name string, most uint64) uint64 {
	w := r.known[name]
	if w == nil || w.Flushed <= w.Replayed || w.Flushed-w.Replayed <= most {
		return 0
	}
	return w.Flushed - w.Replayed
}

// have says how many of these have flushed everything up to a position.
func (r *replicas) have(position uint64, of []string) int {
	have := 0
	for _, name := range of {
		if w := r.known[name]; w != nil && w.Flushed >= position {
			have++
		}
	}
	return have
}
