package elect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// The explorer runs the Core itself in every order of events there is, within bounds. Time is reduced to the limits: it passes in
// ticks, and two states differ only by how many of them are left until a limit.

const tick = time.Second

// exploredLimits are in the order of the real ones, in as few ticks as that takes.
func exploredLimits() Limits {
	return Limits{
		Renew: tick, Retry: tick, Failsafe: tick, Fence: 3 * tick, Kill: 3 * tick, Expire: 4 * tick, Away: tick,
		Listen: tick / 2, Grace: tick / 2, Revive: tick, Handover: tick / 2,
	}
}

// longer are other ones.
func longer() Limits {
	l := exploredLimits()
	l.Fence, l.Kill, l.Expire = 5*tick, 5*tick, 6*tick
	return l
}

// written is a record of the WAL: a commit, or 0 for the beginning of a timeline and for the checkpoint of a shutdown.
type written struct {
	timeline int64
	commit   int
}

// disk is what outlives a pod.
type disk struct {
	wal        []written // never changed in place
	standby    bool
	checkpoint End
}

func (d *disk) timeline() int64 {
	if len(d.wal) == 0 {
		return 0
	}
	return d.wal[len(d.wal)-1].timeline
}

func (d *disk) has(commit int) bool {
	return slices.ContainsFunc(d.wal, func(w written) bool { return w.commit == commit })
}

// leads says whether PostgreSQL would stream from there to a server with this WAL.
func (d *disk) leads(replica *disk) bool {
	return len(replica.wal) > 0 && len(replica.wal) <= len(d.wal) && slices.Equal(replica.wal, d.wal[:len(replica.wal)])
}

// place is a machine with the pod of an instance, its server and its volume.
type place struct {
	name   string
	number int // of the pod
	core   *Core
	now    Time
	disk   disk
	saved  disk // a snapshot of the volume
	config Config
	limits Limits

	want     Want
	mode     Mode
	end      uint64
	sync     Sync
	since    uint64
	upstream string // that a replica streams from
	delayed  bool   // a replica replays nothing
	applied  int    // what a delayed one had replayed when that began
	pending  []int  // commits that wait

	gone, paused, cut, leaving bool
	life                       int  // of its process, which has forgotten what the one before has promised
	unheard                    bool // it doesn't hear what the API server answers to a write
}

// universe is a state of everything.
type universe struct {
	places  []*place
	lease   Record
	newest  Record // that was ever written, wherever the store is by now
	version int
	history []Record
	letters []letter // questions for the word of members, and the answers, that may arrive at any time, again, or never
	acked   []int
	last    int // commit
	config  exploration

	ticks, commits, faults int    // that are left
	done                   string // kinds of faults that there were
	wrong                  string
	trail                  *event
}

type event struct {
	what   string
	before *event
}

func (e *event) String() string {
	var lines []string
	for ; e != nil; e = e.before {
		lines = append(lines, e.what)
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// exploration is what is looked at.
type exploration struct {
	instances  int
	number     int
	required   bool
	faults     []string
	ticks      int
	commits    int
	most       int // faults
	mixed      bool
	everything bool // acknowledged commits count without a quorum, too
	byWord     bool
	degrade    bool // commits don't wait for replicas that are yet to be built
	mistake    mistake
	// begin brings about what the exploration begins with.
	begin func(u *universe)
}

func newUniverse(e exploration) *universe {
	u := &universe{config: e, ticks: e.ticks, commits: e.commits, faults: e.most, version: 1, lease: made(1)}
	u.newest = u.lease
	for i := range e.instances {
		p := &place{name: peers(3)[i], now: 100 * time.Second, limits: exploredLimits()}
		p.config = Config{Peers: peers(e.instances), Number: e.number, Required: e.required, Degrade: e.degrade, MaxLag: 100}
		if e.mistake == degradesAgain {
			p.config.Required = false
		}
		if e.mixed && i == 0 { // it is of another version
			p.limits = longer()
		}
		p.config.Limits, p.config.ByWord = p.limits, e.byWord
		u.places = append(u.places, p)
	}
	u.places[0].disk.wal = []written{{1, 0}}
	for _, p := range u.places {
		u.boot(p)
	}
	u.calm(8)
	for _, p := range u.places {
		p.saved = p.disk
	}
	if e.begin != nil {
		e.begin(u)
	}
	return u
}

// calm lets everything happen that is due, and time pass, without a fault.
func (u *universe) calm(rounds int) {
	for range rounds {
		for range 3 {
			for _, p := range u.places {
				u.see(p)
				u.act(p)
			}
			for _, p := range u.places {
				u.catchUp(p)
			}
			u.deliverAll()
		}
		u.pass()
	}
}

func (u *universe) clone() *universe {
	v := *u
	v.places = make([]*place, len(u.places))
	for i, p := range u.places {
		q := *p
		q.core = cloned(p.core)
		v.places[i] = &q
	}
	v.history, v.acked, v.letters = slices.Clip(u.history), slices.Clip(u.acked), slices.Clip(u.letters)
	return &v
}

// cloned is another Core in the same state.
func cloned(c *Core) *Core {
	d := *c
	d.replicas.known = make(map[string]*watched, len(c.replicas.known))
	for name, w := range c.replicas.known {
		v := *w
		d.replicas.known[name] = &v
	}
	d.positions.heard = maps.Clone(c.positions.heard)
	d.round.left = slices.Clone(c.round.left)
	d.asks.heard = maps.Clone(c.asks.heard)
	if c.handing != nil {
		h := *c.handing
		d.handing = &h
	}
	return &d
}

// hash of all that matters of the state.
func (u *universe) key() string {
	var b strings.Builder
	fmt.Fprint(&b, u.lease, u.newest.Term, u.newest.Sequence, u.ticks, u.commits, u.faults, u.done, u.acked, "|")
	u.describeLetters(&b)
	for _, p := range u.places {
		fmt.Fprint(&b, p.number, p.disk, p.mode, p.end, p.sync, p.since, p.upstream, p.delayed, p.applied, p.pending, p.gone, p.paused, p.cut, p.unheard, p.leaving, p.want.Role, p.want.Leader.Name,
			p.want.Detached, p.since, left(p.want.Until, p.now), ";")
		describe(&b, p.core, p.now)
	}
	return b.String()
}

// left is how long it is until then, as far as any limit can tell.
func left(t, now Time) Time { return max(-8*tick, min(8*tick, t-now)) }

func describe(b *strings.Builder, c *Core, now Time) {
	l := &c.lease
	if l.record != nil {
		fmt.Fprint(b, *l.record)
	}
	fmt.Fprint(b, left(l.seen, now), l.refresh, left(l.reread, now), l.conflict, l.rolledBack, l.writing != nil, left(l.wrote, now), l.confirmed, l.unsure, l.doubt, "|")
	for _, name := range slices.Sorted(maps.Keys(c.replicas.known)) {
		w := c.replicas.known[name]
		fmt.Fprint(b, name, w.Follower, w.most, min(w.away, 6*tick))
	}
	for _, name := range slices.Sorted(maps.Keys(c.positions.heard)) {
		a := c.positions.heard[name]
		fmt.Fprint(b, a.position, left(a.asked, now), a.asked >= c.positions.since)
	}
	fmt.Fprint(b, left(c.replicas.looked, now), c.positions.since > 0, left(c.positions.since, now), left(c.positions.asked, now), c.round.left, left(c.round.started, now))
	if c.handing != nil {
		fmt.Fprint(b, *c.handing)
	}
	describeWord(b, c, now)
	fmt.Fprint(b, c.holds, c.self.Standby, left(c.begun, now), left(c.renewed, now), c.alone, c.solo, c.passed, left(c.promise, now), c.yielded, c.ended, c.ends, c.target, c.limits.Expire, c.limits.wanted.Expire,
		c.config.Failover.Fenced, c.config.Failover.Never, c.config.Failover.Delayed, left(c.config.Failover.Paused, now))
}

func (u *universe) place(name string) *place {
	i := slices.IndexFunc(u.places, func(p *place) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return u.places[i]
}

func (u *universe) fail(format string, args ...any) {
	if u.wrong == "" {
		u.wrong = fmt.Sprintf(format, args...)
	}
}

// boot starts a container.
func (u *universe) boot(p *place) {
	d := &p.disk
	p.mode, p.sync, p.since, p.upstream, p.pending, p.end, p.want, p.leaving, p.delayed = Down, Sync{}, 0, "", nil, 0, Want{}, false, false
	p.life++
	p.core = New(Self{
		Name: p.name, UID: p.name + strconv.Itoa(p.number), Address: "ip-" + p.name, Generation: generation,
		Original: len(d.wal) > 0 && p.name == "a", Whole: len(d.wal) > 0, Standby: d.standby, Timeline: d.timeline(), Checkpoint: d.checkpoint,
	}, p.config)
}

func (u *universe) reach(p, q *place) bool {
	return q != nil && !p.cut && !q.cut && !q.gone && !q.paused && p != q
}

// streams says whether a replica gets WAL from its primary now.
func (u *universe) streams(r *place) *place {
	p := u.place(r.upstream)
	if p == nil || r.mode != Replica || r.gone || p.mode != Primary || !u.reach(r, p) || !p.disk.leads(&r.disk) {
		return nil
	}
	return p
}

// made is a Lease that was just created.
func made(version int) Record {
	return Record{Version: strconv.Itoa(version), Created: fmt.Sprintf("%06d", version)}
}

// apply writes the Lease if its version is the one that was known.
func (u *universe) apply(w *Write) (string, bool) {
	if w.Record.Version != u.lease.Version {
		return "", false
	}
	u.version++
	created := u.lease.Created
	u.lease = w.Record
	u.lease.Version, u.lease.Created = strconv.Itoa(u.version), created
	u.newest = u.lease
	u.history = append(u.history, u.lease)
	return u.lease.Version, true
}

// replayed is how much of its WAL a replica has applied.
func (p *place) replayed() uint64 {
	if p.delayed {
		return uint64(min(p.applied, len(p.disk.wal)))
	}
	return uint64(len(p.disk.wal))
}

// delay begins, or ends.
func (p *place) delay(is bool) {
	if is && !p.delayed {
		p.applied = len(p.disk.wal)
	}
	p.delayed = is
}

func (p *place) position() agentapi.Position {
	found := agentapi.Position{Pod: p.name, Generation: generation, Replica: p.mode == Replica, Promised: p.core.Promised(p.now)}
	if r := p.core.Record(); r != nil {
		found.Term, found.LeaseCreated = r.Term, r.Created
	}
	if p.mode == Replica {
		found.Timeline, found.LSN = p.disk.timeline(), uint64(len(p.disk.wal))
	}
	return found
}
