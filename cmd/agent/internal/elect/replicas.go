package elect

// replicas are what a holder remembers of those that follow it, or did.
type replicas map[string]*watched

// watched is what a holder remembers of a replica.
type watched struct {
	Follower
	last Time // when it streamed last
}

// expected are the replicas of a new holder: the members of the record with which it took the lease.
func expected(now Time, members []Member) replicas {
	r := replicas{}
	for _, m := range members {
		r[m.Name] = &watched{Follower: Follower{Address: m.Address}, last: now}
	}
	return r
}

// note takes in what the server knows of its replicas. Those that are not named are away.
func (r replicas) note(now Time, followers map[string]Follower) {
	for name, f := range followers {
		known := r[name]
		if known == nil {
			known = &watched{}
			r[name] = known
		}
		if f.Address == "" {
			f.Address = known.Address
		}
		known.Follower = f
		if f.Streaming {
			known.last = now
		}
	}
	for name, known := range r {
		if _, found := followers[name]; !found {
			known.Streaming = false
		}
	}
}

// wait for all of them anew: the server that they follow has just begun.
func (r replicas) wait(now Time) {
	for _, known := range r {
		known.last = now
	}
}

func (r replicas) stream(name string) bool {
	w := r[name]
	return w != nil && w.Streaming
}

// have says how many of these have flushed everything up to a position.
func (r replicas) have(position uint64, of []string) int {
	have := 0
	for _, name := range of {
		if w := r[name]; w != nil && w.Flushed >= position {
			have++
		}
	}
	return have
}
