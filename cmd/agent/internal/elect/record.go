package elect

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Record is the Lease as whoever holds or takes it writes it; see docs/high-availability.md.
type Record struct {
	// Version is the resourceVersion that was read, and the precondition of the next write.
	Version string
	// Created is when the Lease was created, by the clock of the API server, such as 2026-07-01T12:00:00Z; empty: it is not known. Terms and
	// sequences of two Leases can't be compared.
	Created string
	// Holder is the pod that is primary; empty: the lease was given up.
	Holder    string
	HolderUID string
	Address   string // of the holder
	Started   string // when its process was, by its own clock: it tells one container of a pod from the next
	// Term counts the holders. Timeline is the one that the holder begins if it is promoted, and higher than any before: of two
	// that are promoted from the same point, PostgreSQL would call both timelines the same.
	Term     int64
	Timeline int64
	// Sequence counts the writes of a term, so that a Lease from a backup of the store is recognised; 0: an agent that doesn't count
	// them, or a person, has written last.
	Sequence int64
	// Generation is the data generation that the election is about; empty: there was none yet.
	Generation string
	// Duration is for how long the holder keeps the lease without a renewal, by its own limits; 0: it doesn't say.
	Duration time.Duration
	// Word is for how long a member keeps its word that it doesn't take the lease. The holder doesn't renew the lease then, as long as all
	// of them have given it. 0: it renews, and no word counts for longer than a renewal.
	Word time.Duration
	// Damaged says in a sentence why all but Version, Holder, Term and Duration is unknown: somebody else has written to the Lease.
	Damaged string
	// LastHolder is the holder, or who gave the lease up.
	LastHolder string
	// Checkpoint is the last one in the control file of LastHolder, when it was primary: a volume with an earlier one was rolled back.
	Checkpoint End
	// Members may take over. An acknowledged commit is on at least Quorum of them.
	Members []Member
	Quorum  int
	// Full: the quorum was once as large as the cluster asks for, in this data generation. That is never forgotten.
	Full bool
	// Successor should take a lease that was given up.
	Successor string
	// Complete: the lease was given up after an orderly end, at End, so whoever has End has everything.
	Complete bool
	// End is where the WAL of the last primary ended that ended in order. Whoever lacks any of it never takes the lease.
	End End
}

// End of the WAL of a primary that was shut down in order: where the record of its last checkpoint begins.
type End struct {
	Timeline int64  `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

// reached says whether somebody at that position has everything up to an end. An end that isn't known is reached by all.
func (e End) reached(p agentapi.Position) bool {
	return e.LSN == 0 || p.Timeline > e.Timeline || p.Timeline == e.Timeline && p.LSN > e.LSN
}

// beyond says whether somebody at that position lacks something of what it once had.
func (e End) beyond(p agentapi.Position) bool {
	return e.LSN > 0 && (p.Timeline < e.Timeline || p.Timeline == e.Timeline && p.LSN < e.LSN)
}

// before says whether an end comes before another one.
func (e End) before(other End) bool {
	return cmp.Or(cmp.Compare(e.Timeline, other.Timeline), cmp.Compare(e.LSN, other.LSN)) < 0
}

// later is the later one of two.
func later(a, b End) End {
	if a.before(b) {
		return b
	}
	return a
}

// Member is an instance that may take over.
type Member struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	// Replayed is what it had at least: whoever has less has lost some of it, and its word is worth nothing.
	Replayed End `json:"replayed,omitzero"`
}

// member of that name, and whether there is one.
func (r *Record) member(name string) (Member, bool) {
	i := slices.IndexFunc(r.Members, func(m Member) bool { return m.Name == name })
	if i < 0 {
		return Member{}, false
	}
	return r.Members[i], true
}

// longestDuration bounds what a Lease may ask for: one that was edited by hand keeps nobody from taking over for ever.
const longestDuration = 10 * time.Minute

// expiry is for how long a record must have stayed the same until others may take the lease: by their own limits and by the
// holder's, which may be of another version of the agent.
func (r *Record) expiry(limits Limits) time.Duration {
	own := limits.Expire
	if r.Duration == 0 { // whoever wrote it may go by other limits than we do
		own = max(own, DefaultLimits().Expire)
	}
	return max(own, min(r.Duration, longestDuration))
}

// Lasts is what a Lease says to agents that know of no way to keep it but by renewal. Where it is kept by word, they wait until even
// a holder that doesn't ask them would have written it again.
func (r *Record) Lasts() time.Duration {
	if r.Word > 0 {
		return max(r.Duration, DefaultLimits().Word.Others)
	}
	return r.Duration
}

// full says whether there was once a quorum of that many. An agent that doesn't know of Full has dropped it, but keeps the quorum.
func (r *Record) full(number int) bool { return r.Full || number > 0 && r.Quorum >= number }

// blank: nobody has written it yet, or somebody has taken the Lease away and it was made again.
func (r *Record) blank() bool {
	return r.Damaged == "" && r.Holder == "" && r.Term == 0 && r.LastHolder == "" && r.Generation == ""
}

// newer says whether a record is the later one of two that were read. Versions that are no numbers are taken as they come.
func (r *Record) newer(than *Record) bool {
	if than == nil {
		return true
	}
	if r.Version == "" || than.Version == "" { // one that is yet to be created
		return r.Version != ""
	}
	a, errA := strconv.ParseUint(r.Version, 10, 64)
	b, errB := strconv.ParseUint(than.Version, 10, 64)
	if errA != nil || errB != nil {
		return r.Version != than.Version
	}
	return a > b
}

// createdAfter: it is another Lease, created when the other one had been deleted. A second is as close as the clock tells.
func (r *Record) createdAfter(other *Record) bool {
	return r.Created != "" && other.Created != "" && r.Created > other.Created // times in UTC, of the same form
}

// older says whether the record was written before another one, whatever their versions are: the store may have been restored from a
// backup since.
func (r *Record) older(than *Record) bool {
	switch {
	case r.blank(): // one that was deleted and created again has a later version
		return !r.newer(than)
	case r.createdAfter(than):
		return false
	}
	return r.precedes(than)
}

// precedes says whether the term or sequence of the record is lower.
func (r *Record) precedes(than *Record) bool {
	if r.Term != than.Term {
		return r.Term < than.Term
	}
	return r.Sequence > 0 && r.Sequence < than.Sequence
}

func names(members []Member) []string {
	out := make([]string, 0, len(members))
	for _, m := range members {
		out = append(out, m.Name)
	}
	slices.Sort(out)
	return out
}

func subset(a, b []Member) bool {
	return !slices.ContainsFunc(a, func(m Member) bool { return !has(b, m.Name) })
}

func has(members []Member, name string) bool {
	return slices.ContainsFunc(members, func(m Member) bool { return m.Name == name })
}

func without(members []Member, name string) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Name == name })
}

// union of two sets, in the order of names; the later address of a name counts, if there is one.
func union(a, b []Member) []Member {
	out := slices.Clone(a)
	for _, m := range b {
		if i := slices.IndexFunc(out, func(o Member) bool { return o.Name == m.Name }); i >= 0 {
			out[i].Address, out[i].Replayed = cmp.Or(m.Address, out[i].Address), later(m.Replayed, out[i].Replayed)
		} else {
			out = append(out, m)
		}
	}
	sortMembers(out)
	return out
}

func sortMembers(members []Member) {
	slices.SortFunc(members, func(x, y Member) int { return cmp.Compare(x.Name, y.Name) })
}

// ahead compares positions: whoever is on a later timeline has what counts, then who has more of it.
func ahead(a, b agentapi.Position) int {
	return cmp.Or(cmp.Compare(a.Timeline, b.Timeline), cmp.Compare(a.LSN, b.LSN))
}
