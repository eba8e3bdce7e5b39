package elect

import (
	"flag"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var exploreAll = flag.Int("explore", 0, "how many states each exploration looks at; 0: a few, in seconds")

func (u *universe) had(fault string) bool { return strings.Contains(u.done, fault) }

// next are all states that can come after this one.
func (u *universe) next() (all []*universe) {
	e := &u.config
	try := func(what string, do func(v *universe)) {
		v := u.clone()
		v.trail = &event{what, u.trail}
		do(v)
		all = append(all, v)
	}
	for i, p := range u.places {
		if p.gone {
			continue
		}
		if !p.paused {
			try(p.name+" decides", func(v *universe) { v.act(v.places[i]) })
			if !p.cut && (p.core.lease.record == nil || p.core.lease.record.Version != u.lease.Version) {
				try(p.name+" sees the Lease", func(v *universe) { v.see(v.places[i]) })
			}
		}
		if s := u.streams(p); s != nil && len(s.disk.wal) > len(p.disk.wal) {
			try(p.name+" catches up", func(v *universe) { v.catchUp(v.places[i]) })
		}
		if p.mode == Primary && !p.paused && u.commits > 0 {
			u.tryCommits(i, try)
		}
	}
	u.tryLetters(try)
	if u.ticks > 0 && (!e.everything || u.punctual()) {
		try("time passes", func(v *universe) { v.ticks--; v.pass() })
	}
	u.tryFaults(try)
	return all
}

// punctual: every primary has renewed in time, so time may pass without ending any.
func (u *universe) punctual() bool {
	return !slices.ContainsFunc(u.places, func(p *place) bool { return p.mode == Primary && p.want.Until <= p.now+tick })
}

// tryCommits lets a row be committed, received by each set of the replicas.
func (u *universe) tryCommits(primary int, try func(string, func(*universe))) {
	var replicas []int
	for i, r := range u.places {
		if u.streams(r) == u.places[primary] && len(r.disk.wal) == len(u.places[primary].disk.wal) {
			replicas = append(replicas, i)
		}
	}
	for set := range 1 << len(replicas) {
		what := u.places[primary].name + " commits"
		var chosen []int
		for bit, i := range replicas {
			if set&(1<<bit) != 0 {
				chosen = append(chosen, i)
				what += ", which " + u.places[i].name + " receives"
			}
		}
		try(what, func(v *universe) {
			var receive []*place
			for _, i := range chosen {
				receive = append(receive, v.places[i])
			}
			v.commit(v.places[primary], receive)
		})
	}
}

// tryFaults lets something go wrong, or come right again.
func (u *universe) tryFaults(try func(string, func(*universe))) {
	for i, p := range u.places {
		if p.cut {
			try(p.name+" is connected again", func(v *universe) { v.places[i].cut = false })
		}
		if p.unheard {
			try(p.name+" hears the API server again", func(v *universe) { v.places[i].unheard = false })
		}
		if p.paused {
			try(p.name+" continues", func(v *universe) { v.places[i].paused = false })
		}
	}
	if u.faults == 0 {
		return
	}
	for _, fault := range u.config.faults {
		fault := faults[fault]
		for i, p := range u.places {
			if fault.can(u, p) {
				try(p.name+": "+fault.name, func(v *universe) {
					v.faults--
					v.done += fault.name
					fault.do(v, v.places[i])
				})
			}
		}
	}
}

type fault struct {
	name string
	can  func(u *universe, p *place) bool
	do   func(u *universe, p *place)
}

func here(_ *universe, p *place) bool { return !p.gone && !p.paused }

// holding is whose fault it is where a fault has no place: it happens once.
func holding(u *universe, p *place) bool { return p.core.Holds() && p.mode == Primary && here(u, p) }

var faults = map[string]fault{
	"crash":  {"crash", here, func(u *universe, p *place) { u.boot(p) }},
	"delete": {"delete the pod", here, func(u *universe, p *place) { p.core.Leave(); p.leaving = true }},
	"start": {"start a pod", func(_ *universe, p *place) bool { return p.gone && p.leaving }, func(u *universe, p *place) {
		p.gone = false
		p.number++
		u.faults++
		u.boot(p)
	}},
	"cut": {"cut off", func(u *universe, p *place) bool { return here(u, p) && !p.cut }, func(_ *universe, p *place) { p.cut = true }},
	"unheard": {"not hear the API server", func(u *universe, p *place) bool { return here(u, p) && !p.unheard }, func(_ *universe, p *place) {
		p.unheard = true
	}},
	"pause":  {"pause with its clock", here, func(_ *universe, p *place) { p.paused = true }},
	"switch": {"switchover", holding, func(u *universe, p *place) { u.switchover(p, strconv.Itoa(u.faults)) }},
	"take back": {"take a switchover back", func(u *universe, p *place) bool {
		return holding(u, p) && p.core.handing != nil && p.core.handing.asked
	}, func(_ *universe, p *place) {
		TakeBack(p.core, "busy")
	}},
	"lose": {"lose for good", here, func(_ *universe, p *place) {
		p.gone, p.mode, p.leaving = true, Down, false
	}},
	"roll back": {"restore an older volume", func(u *universe, p *place) bool { return here(u, p) && u.marked(p) }, func(u *universe, p *place) {
		p.disk = p.saved
		p.number++
		u.boot(p)
	}},
	"swap": {"swap its disk with the one of the next", func(u *universe, p *place) bool { return here(u, p) && here(u, u.after(p)) }, func(u *universe, p *place) {
		q := u.after(p)
		p.disk, q.disk = q.disk, p.disk
		for _, booted := range []*place{p, q} {
			booted.number++
			u.boot(booted)
		}
	}},
	"empty": {"replace the volume by an empty one", here, func(u *universe, p *place) {
		p.disk = disk{}
		p.number++
		u.boot(p)
	}},
	"limits": {"other limits", here, func(_ *universe, p *place) {
		if p.config.Limits = longer(); p.limits == p.config.Limits {
			p.config.Limits = exploredLimits()
		}
		p.limits = p.config.Limits
		p.core.Configure(p.config)
	}},
	"fence":   {"fence", here, func(u *universe, p *place) { u.prefer(Failover{Fenced: []string{p.name}}) }},
	"never":   {"never", here, func(u *universe, p *place) { u.prefer(Failover{Never: []string{p.name}}) }},
	"delay":   {"delay", here, func(u *universe, p *place) { u.prefer(Failover{Delayed: []string{p.name}}) }},
	"hold":    {"pause failover", holding, func(u *universe, p *place) { u.prefer(Failover{Paused: p.now + 6*tick}) }},
	"restore": {"restore the Lease", holding, func(u *universe, _ *place) { u.lease = u.history[2] }},
	"edit": {"restore the Lease under a later version", holding, func(u *universe, _ *place) {
		u.version++
		u.lease = u.history[2]
		u.lease.Version = strconv.Itoa(u.version)
	}},
	"remove": {"delete the Lease", holding, func(u *universe, p *place) {
		u.version++
		u.lease = made(u.version)
		for _, q := range u.places {
			q.config.Begins = p.name
			q.core.Configure(q.config)
		}
	}},
}

// after is the next place, the first after the last.
func (u *universe) after(p *place) *place {
	return u.places[(slices.Index(u.places, p)+1)%len(u.places)]
}

// marked says whether the Lease has a mark that tells the snapshot of a volume from what is on it.
func (u *universe) marked(p *place) bool {
	if u.lease.LastHolder == p.name {
		return p.saved.checkpoint.before(u.lease.Checkpoint)
	}
	m, member := u.lease.member(p.name)
	return !member || uint64(len(p.saved.wal)) < m.Replayed.LSN
}

// check what holds at every moment.
func (u *universe) check() {
	r := &u.newest
	if u.wrong != "" || r.Quorum == 0 || u.had("lose") || u.had("volume") || u.had("swap") {
		return
	}
	for _, commit := range u.acked {
		have := 0
		for _, m := range r.Members {
			if u.place(m.Name).disk.has(commit) {
				have++
			}
		}
		if have < r.Quorum {
			u.fail("the Lease says that %d of %v have commit %d, and %d do", r.Quorum, names(r.Members), commit, have)
		}
	}
}

// recovers says whether there is a primary that acknowledges commits, and that all others follow, once all is well that can be.
func (u *universe) recovers() (bool, string) {
	v := u.clone()
	v.prefer(Failover{})
	for range 40 {
		for _, p := range v.places {
			p.cut, p.paused, p.unheard = false, false, false
			if p.gone && p.leaving {
				p.gone = false
				p.number++
				v.boot(p)
			}
		}
		v.calm(1)
		for _, p := range v.places {
			if p.mode == Primary && p.core.Holds() && !p.gone {
				if v.had("lose") { // commits may have to wait
					return true, v.wrong
				}
				acked, last := len(v.acked), v.last
				v.commit(p, nil)
				for _, r := range v.places {
					v.catchUp(r)
				}
				if (len(v.acked) > acked || !slices.Contains(p.pending, last+1)) && v.allFollow(p) {
					return true, v.wrong
				}
			}
		}
		if v.wrong != "" {
			return false, v.wrong
		}
	}
	why := "there is no primary that all others follow even once everything works that is left:"
	for _, p := range v.places {
		why += fmt.Sprintf("\n  %s: %d, mode %d, %s", p.name, p.want.Role, p.mode, p.want.Why)
	}
	return false, fmt.Sprintf("%s\n  Lease %+v\n", why, v.lease)
}

// allFollow says whether all others receive WAL from the primary.
func (u *universe) allFollow(p *place) bool {
	return !slices.ContainsFunc(u.places, func(r *place) bool { return r != p && (r.want.Role != Follow || u.streams(r) != p) })
}

// mayExpectOne says whether a primary has to come: more may be lost than the quorum covers, and nobody writes a Lease again that was rolled
// back while there is no primary.
func (u *universe) mayExpectOne() bool {
	lost := strings.Count(u.done, "lose") + strings.Count(u.done, "volume") + strings.Count(u.done, "swap")
	return lost < 2 && (!u.had("restore the Lease") || slices.ContainsFunc(u.places, func(p *place) bool { return p.core.Holds() && p.want.Until > p.now+2*tick }))
}

// explore looks at as many states as it may, those that need the fewest events first.
func explore(t *testing.T, e exploration, states int) {
	t.Helper()
	seen, all, wrong := look(e, states)
	if wrong != "" {
		t.Fatal(wrong)
	}
	t.Logf("%d states, all of them: %v", seen, all)
}

// look at as many states, until one is wrong: what is, and after what.
func look(e exploration, states int) (looked int, all bool, wrong string) {
	first := newUniverse(e)
	if first.wrong != "" {
		return 0, false, first.wrong
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]bool{maphash.String(seed, first.key()): true}
	queue := []*universe{first}
	for len(queue) > 0 && len(seen) < states {
		u := queue[0]
		queue[0], queue = nil, queue[1:]
		for _, v := range u.next() {
			key := maphash.String(seed, v.key())
			if seen[key] {
				continue
			}
			seen[key] = true
			v.check()
			if v.wrong == "" && len(seen)%8 == 0 && v.mayExpectOne() {
				_, v.wrong = v.recovers()
			}
			if v.wrong != "" {
				for _, p := range v.places {
					v.trail = &event{fmt.Sprintf("  %s: %+v %s", p.name, p.disk, p.want.Why), v.trail}
				}
				return len(seen), false, fmt.Sprintf("%s, after\n%s", v.wrong, v.trail)
			}
			queue = append(queue, v)
		}
	}
	return len(seen), len(queue) == 0, ""
}

// expired: the primary and its clock have stood still for as long as it takes the others to see the lease run out.
func expired(u *universe) {
	u.places[0].paused = true
	for range 5 {
		u.pass()
	}
	u.done += "pause"
}

// moved: the second instance is primary, and the first follows it.
func moved(u *universe) {
	u.switchover(u.places[0], "first")
	u.calm(8)
}

// replaced: the first instance is not fit yet to follow the second, which has taken over.
func replaced(u *universe) {
	a, b := u.places[0], u.places[1]
	a.mode, a.gone, a.leaving = Down, true, false
	for range 5 {
		u.pass()
		u.see(b)
		u.act(b)
		u.act(b)
	}
	a.gone = false
	u.boot(a)
}

// unbuilt: the first instance has begun a data generation that the others have no copy of.
func unbuilt(u *universe) {
	u.version++
	u.lease = made(u.version)
	u.newest, u.history = u.lease, nil
	for i, p := range u.places {
		p.disk, p.cut = disk{}, i > 0
		if i == 0 {
			p.disk.wal = []written{{1, 0}}
		}
		p.saved = p.disk
		u.boot(p)
	}
	u.calm(4)
	for _, p := range u.places {
		p.cut = false
	}
}

// late: the second of two is a delayed replica.
func late(u *universe) {
	u.prefer(Failover{Delayed: []string{u.places[1].name}})
	u.calm(4)
	if !u.places[1].delayed || len(u.lease.Members) > 0 {
		u.fail("the replica is not delayed: %+v", u.lease)
	}
}

// advanced: all have more than there is on any snapshot, and the Lease says so.
func advanced(u *universe) {
	u.commit(u.places[0], u.places[1:])
	u.calm(2)
}

var explorations = map[string]exploration{
	"a clock that stands still":             {instances: 3, number: 1, required: true, ticks: 1, commits: 1, begin: expired},
	"a clock that stands still at any time": {instances: 3, number: 1, required: true, faults: []string{"pause", "cut"}, ticks: 5, commits: 1, most: 1},
	"crashes and cuts":                      {instances: 3, number: 1, required: true, faults: []string{"crash", "cut", "delete", "start"}, ticks: 4, commits: 1, most: 2},
	"preferred":                             {instances: 3, number: 1, faults: []string{"crash", "cut", "delete", "start"}, ticks: 4, commits: 1, most: 2},
	"two replicas have every commit":        {instances: 3, number: 2, required: true, faults: []string{"crash", "cut", "pause"}, ticks: 4, commits: 1, most: 2},
	"other limits":                          {instances: 3, number: 1, required: true, faults: []string{"limits", "cut"}, ticks: 6, commits: 1, most: 2},
	"what people want":                      {instances: 3, number: 1, required: true, faults: []string{"fence", "never", "hold", "crash"}, ticks: 4, commits: 1, most: 2},
	"a delayed replica":                     {instances: 3, number: 1, required: true, faults: []string{"delay", "crash", "cut", "switch"}, ticks: 4, commits: 1, most: 3},
	"a delayed replica that has everything": {instances: 2, faults: []string{"delete", "start"}, ticks: 3, commits: 1, most: 2, everything: true, begin: late},
	"mixed limits":                          {instances: 3, number: 1, required: true, faults: []string{"cut"}, ticks: 5, commits: 1, most: 2, mixed: true},
	"a successor that is lost":              {instances: 2, number: 1, required: true, faults: []string{"lose"}, ticks: 2, commits: 1, most: 1, begin: replaced},
	"an instance that is lost":              {instances: 3, number: 1, required: true, faults: []string{"lose"}, ticks: 4, commits: 2, most: 1},
	"a Lease from a backup":                 {instances: 3, number: 1, required: true, faults: []string{"restore", "edit", "remove", "crash"}, ticks: 2, commits: 1, most: 2},
	"a Lease from before a switchover":      {instances: 3, number: 1, required: true, faults: []string{"restore", "crash"}, commits: 1, most: 2, begin: moved},
	"a Lease that is created again":         {instances: 3, number: 1, required: true, faults: []string{"remove", "crash"}, ticks: 1, commits: 1, most: 2, begin: moved},
	"a volume from a snapshot":              {instances: 3, number: 1, required: true, faults: []string{"roll back", "empty", "lose"}, ticks: 5, commits: 1, most: 2, begin: advanced},
	"disks that are swapped":                {instances: 3, number: 1, required: true, faults: []string{"swap", "crash", "cut"}, ticks: 5, commits: 1, most: 2},
	"disks of two that are swapped":         {instances: 2, number: 1, required: true, faults: []string{"swap", "crash", "cut"}, ticks: 5, commits: 1, most: 2},
	"replicas that are being built": {
		instances: 3, number: 2, required: true, degrade: true, faults: []string{"crash", "cut", "delete", "start"}, ticks: 4, commits: 2, most: 2, begin: unbuilt},
	"a replica that is being built": {
		instances: 2, number: 1, required: true, degrade: true, faults: []string{"crash", "cut", "pause", "delete", "start"}, ticks: 5, commits: 2, most: 2, begin: unbuilt},
	"replicas that were built": {
		instances: 3, number: 1, required: true, degrade: true, faults: []string{"crash", "cut", "delete", "start"}, ticks: 4, commits: 1, most: 2},
	"a switchover that is taken back": {instances: 2, number: 1, required: true, faults: []string{"switch", "take back", "cut"}, ticks: 4, commits: 1, most: 3},
	"all pods at once":                {instances: 2, faults: []string{"delete", "start"}, ticks: 2, commits: 1, most: 2, everything: true},
	"all of three pods at once":       {instances: 3, faults: []string{"delete", "start"}, ticks: 1, commits: 1, most: 3, everything: true},
}

func TestEveryOrderOfEventsKeepsWhatWasAcknowledged(t *testing.T) {
	states := 3000
	if *exploreAll > 0 {
		states = *exploreAll
	}
	for name, e := range explorations {
		t.Run(name, func(t *testing.T) { explore(t, e, states) })
	}
}
