package elect

import (
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// A lease is kept in one of two ways, and the Lease says which. By renewal its holder writes it again and again. By word its holder asks the
// members several times a second whether they still wait, and writes it only when something changes. docs/proposals/0004 has the argument.

const (
	byRenewal = iota
	byWord
)

// newCheckpoint is how long the Lease of a holder that writes nothing may lack the last one.
const newCheckpoint = 30 * time.Second

// wayOf keeping the lease that a record names.
func wayOf(record *Record) int {
	if record.Word > 0 {
		return byWord
	}
	return byRenewal
}

// way of keeping the lease: whether some version of the Lease names it that may be the current one, and who may take the lease by that.
type way struct {
	possible bool
	members  []Member
	since    Time // when the first of those versions was sent: whoever goes by it has seen it later. 0: it doesn't matter
}

func (w *way) add(members []Member, sent Time) {
	if !w.possible || sent < w.since {
		w.since = sent
	}
	w.possible, w.members = true, union(w.members, members)
}

// by a way the lease may be kept at the moment.
func (l *lease) by(kind int) way {
	w := l.ways[kind]
	if l.writing != nil && wayOf(&l.writing.Record) == kind {
		w.add(l.writing.Record.Members, l.writing.Sent)
	}
	if l.record != nil && wayOf(l.record) == kind {
		w.add(l.record.Members, l.since)
	}
	return w
}

// sawOwn takes in that a record lies in the store of which the holder had not heard that it was written.
func (l *lease) sawOwn(record *Record) {
	if kind := wayOf(record); kind != wayOf(l.record) {
		l.since = l.by(kind).since
	}
}

// doubtful notes that another version was read than the one that is known, which may lie in a restored store, or come from a server that lags.
// The next renewal tells; where there is none, a write does.
func (l *lease) doubtful(record *Record) {
	if l.record.Word > 0 && record.Version != l.record.Version {
		l.confirmed = false
	}
}

// asks is what the holder has asked its members for, and what they have answered.
type asks struct {
	asked Time            // when the last question was sent
	heard map[string]Time // when the question was sent that a member has answered last
	whole Time            // since when all members have answered
}

// proven is since when all of them have given their word; 0: one hasn't.
func (a *asks) proven(members []Member) Time {
	if len(members) == 0 {
		return 0
	}
	first := Forever
	for _, m := range members {
		first = min(first, a.heard[m.Name])
	}
	return first
}

// heardAll says whether there are members, and all of them have answered a question that was sent not longer ago than that.
func (a *asks) heardAll(now Time, members []Member, age time.Duration) bool {
	proven := a.proven(members)
	return proven > 0 && now < proven+age
}

// WordQuestion asks members for their word not to take the lease for a while.
type WordQuestion struct {
	// Members that may take the lease, or will soon.
	Members []Member
	Request WordRequest
}

// WordRequest is what each of them is asked.
type WordRequest struct {
	Failsafe agentapi.FailsafeRequest
	// Sequence of the Lease, as the holder knows it.
	Sequence int64
	// Number is when the question was sent, by the clock of who asks: the answer repeats it.
	Number Time
	// Expire is for how long the word is to be kept.
	Expire time.Duration
}

// tenure is what a holder knows at one moment, from which follows for how long it has the lease, and what it does to have it for longer.
type tenure struct {
	self     Self
	config   *Config
	limits   *pacing
	server   *Server
	lease    *lease
	replicas *replicas
	contact  *contact
	asks     *asks
	round    *round
	handing  *handover
	renewed  Time
}

func (c *Core) tenure() *tenure {
	return &tenure{
		self: c.self, config: &c.config, limits: &c.limits, server: &c.server, lease: &c.lease, replicas: &c.replicas, contact: &c.contact,
		asks: &c.asks, round: &c.round, handing: c.handing, renewed: c.renewed,
	}
}

// askWord asks for the word of members, where that counts or is to count soon.
func (t *tenure) askWord(now Time, acts *Acts) {
	exposed := t.lease.exposed()
	if word := t.lease.by(byWord); !t.config.ByWord && !word.possible || len(exposed) == 0 {
		t.asks.whole = 0
		return
	}
	switch all := t.asks.heardAll(now, exposed, t.limits.Word.Silent); {
	case !all:
		t.asks.whole = 0
	case t.asks.whole == 0:
		t.asks.whole = now
	}
	due := t.asks.asked + t.limits.Word.Rest
	if t.asks.proven(exposed) < t.asks.asked {
		due = t.asks.asked + t.limits.Word.Ask
	}
	if t.asks.asked > 0 && now < due {
		acts.Wake = min(acts.Wake, due)
		return
	}
	t.asks.asked = now
	acts.Word = &WordQuestion{Members: t.audience(exposed), Request: WordRequest{
		Failsafe: agentapi.FailsafeRequest{Leader: t.self.Name, Generation: t.self.Generation, Term: t.lease.record.Term},
		Sequence: t.lease.record.Sequence, Number: now, Expire: t.limits.word(),
	}}
	acts.Wake = min(acts.Wake, now+t.limits.Word.Ask)
}

// audience of a question: those that may take the lease, and those that stream and may become members.
func (t *tenure) audience(exposed []Member) []Member {
	all := exposed
	for name, known := range t.replicas.known {
		if known.Streaming && known.Address != "" && name != t.self.Name {
			all = union(all, []Member{{Name: name, Address: known.Address}})
		}
	}
	return all
}

// HeardWord takes in that a member has given its word, in answer to a question of this term. It counts from when the question was sent,
// because the answer may have taken any time.
func (c *Core) HeardWord(now Time, member string, term int64, number Time) {
	if !c.holds || term != c.lease.record.Term || number <= c.begun || number > now {
		return
	}
	if c.asks.heard == nil {
		c.asks.heard = map[string]Time{}
	}
	c.asks.heard[member] = max(c.asks.heard[member], number)
}

// word is for how long the next record has members keep their word; 0: the lease is kept by renewal. It is once a member is silent:
// that takes one write, and leaves alone who is a member and for whom commits wait.
func (t *tenure) word(now Time, next []Member, steady bool) time.Duration {
	record, limits := t.lease.record, &t.limits.Word
	switch {
	case !t.config.ByWord || len(next) == 0 || t.lease.unclear() && t.lease.by(byRenewal).possible || !t.asks.heardAll(now, union(record.Members, next), limits.Silent):
		return 0
	case record.Word > 0:
		return t.limits.word()
	case t.handing == nil && t.server.Mode == Primary && steady && t.asks.whole > 0 && now >= t.asks.whole+limits.Prove:
		return t.limits.word()
	}
	return 0
}

// takesBack: the next record is written at once, as the word of members isn't enough any more.
func (t *tenure) takesBack(now Time, next *Record) bool {
	return t.lease.record.Word > 0 && next.Word == 0 && (t.lease.confirmed || now >= t.lease.wrote+t.limits.Retry)
}

// until is when the holder stops unless it renews. Where nobody may take over it need not.
func (t *tenure) until() Time {
	if len(t.lease.exposed()) == 0 {
		return t.contact.until(t.config)
	}
	return t.fenced()
}

// fenced is when the holder stops unless it renews, or all members give their word. Where the Lease may name either way, both count.
func (t *tenure) fenced() Time {
	until := Forever
	if w := t.lease.by(byRenewal); w.possible {
		until = min(until, max(t.renewed, w.since)+t.limits.Fence)
	}
	if w := t.lease.by(byWord); w.possible {
		until = min(until, max(t.renewed, w.since, t.asks.proven(w.members))+t.limits.Word.Fence)
	}
	return until
}

// ages of the lease, by renewal and by word; 0: it isn't kept in that way.
func (t *tenure) ages(now Time) (renewal, word time.Duration) {
	if w := t.lease.by(byWord); w.possible {
		word = now - max(t.renewed, w.since, t.asks.proven(w.members))
	}
	if w := t.lease.by(byRenewal); w.possible {
		renewal = now - max(t.renewed, w.since)
	}
	return renewal, word
}

// Renewal is how a holder keeps the lease at a moment.
type Renewal struct {
	ByWord bool
	// Silent are those of whom an answer is missing, where the lease is to be kept by word.
	Silent []string
}

// RenewalOf is how a core keeps the lease; nil: it doesn't hold it.
func RenewalOf(c *Core, now Time) *Renewal {
	if !c.holds {
		return nil
	}
	renewal := &Renewal{ByWord: c.lease.by(byWord).possible && !c.lease.by(byRenewal).possible}
	if !c.config.ByWord {
		return renewal
	}
	for _, m := range c.lease.exposed() {
		if !c.asks.heardAll(now, []Member{m}, c.limits.Word.Silent) {
			renewal.Silent = append(renewal.Silent, m.Name)
		}
	}
	return renewal
}

// given is the word that an instance has given last.
type given struct {
	at, until Time
	term      int64 // to whose holder
	sequence  int64 // of the Lease that the holder went by
	number    Time  // of the question, by the holder's clock
}

// old: the question was answered already, or a later one was. It says nothing of whether who has asked is still there.
func (g *given) old(request *WordRequest) bool {
	term := request.Failsafe.Term
	return term < g.term || term == g.term && request.Number <= g.number
}

// binds: the word was given to who holds the lease by this record, and is not known to have ended.
func (g *given) binds(record *Record, ended int64) bool {
	return record != nil && record.Holder != "" && record.Term <= g.term && ended != g.term
}

// promised is until when the lease is not taken, by the word that was given and by other promises.
func (g *given) promised(promise Time, record *Record, ended int64) Time {
	if g.binds(record, ended) {
		return max(promise, g.until)
	}
	return promise
}

// AskedWord answers a holder that asks for the word of this instance. True is a promise not to take the lease for a while.
func (c *Core) AskedWord(now Time, request WordRequest) bool {
	if c.given.old(&request) || unfaithful(c, request.Failsafe) != "" || c.lease.rolledBack {
		return false // a holder that has not heard that its Lease was rolled back hears it when it writes the next one
	}
	expire := max(request.Expire, c.limits.Word.Expire, c.lease.record.Word)
	until := now + min(expire, longestDuration)
	c.given = given{at: now, until: max(until, c.given.until), term: request.Failsafe.Term, sequence: request.Sequence, number: request.Number}
	return true
}

// expires is when the lease is anybody's to take if nothing is heard of its holder. Where it is kept by word, a member that was asked
// in the name of this version waits for as long as it has promised. One that wasn't may have forgotten its word in a restart, or the
// Lease may lie in a store that was restored from a backup: it waits as if the lease were kept by renewal. Whoever isn't asked, as
// it is no member, waits until even the last holder would have written it again.
func (c *candidate) expires() Time {
	r := c.record
	switch {
	case r.Word == 0:
		return c.seen + r.expiry(c.limits)
	case r.Generation == c.self.Generation && r.LastHolder == c.self.Name: // it asks the members before it takes the lease
		return c.seen + r.expiry(c.limits)
	case !has(r.Members, c.self.Name):
		return c.seen + c.patience()
	case r.Sequence > 0 && c.given.term == r.Term && c.given.sequence == r.Sequence:
		return max(c.seen+min(max(c.limits.Word.Expire, r.Word), longestDuration), c.given.until)
	}
	return max(c.seen+r.expiry(c.limits), c.given.until)
}

// patience is for how long nothing must be heard of a holder that doesn't ask this instance.
func (c *candidate) patience() time.Duration {
	if c.record.Word == 0 {
		return c.record.expiry(c.limits)
	}
	return max(c.limits.Word.Others, c.record.expiry(c.limits))
}
