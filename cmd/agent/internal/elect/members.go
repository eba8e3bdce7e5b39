package elect

import (
	"maps"
	"slices"
)

// membership is what is known at a moment of those that may take over: what the record says of them, and what they do.
//
// Two things hold at every moment while the record has a quorum: PostgreSQL waits for one that is no smaller, of members that
// are all in the record; and what was acknowledged before is on as many members of the record as it says. So whoever counts
// on the record can't miss a commit. A record without members is always right: then only the holder itself may continue.
type membership struct {
	self     string
	config   Config
	away     Time // that a member may be gone until it is none any more
	record   *Record
	unclear  bool // it is not known what the Lease says
	replicas *replicas
	server   Server
	target   Sync // what PostgreSQL was asked to have
}

func (c *Core) membership() *membership {
	return &membership{
		self: c.self.Name, config: c.config, away: c.limits.Away, record: c.lease.record, unclear: c.lease.unclear(),
		replicas: &c.replicas, server: c.server, target: c.target,
	}
}

// next is what the next record says of members and quorum, and what PostgreSQL is to have meanwhile.
func (m *membership) next() (_ []Member, _ int, target Sync) {
	record := m.record
	members, quorum := m.desired()
	wanted := Sync{Quorum: quorum, Members: names(members)}
	switch {
	case m.unclear: // nothing is built on it
		return record.Members, record.Quorum, m.target
	case record.Quorum > 0 && len(members) == 0: // nobody is left to wait for, and nobody may take over from here on
		return nil, 0, m.target
	case record.Quorum == 0 && quorum > 0: // PostgreSQL waits already before anybody counts on it
		if !m.settled(wanted) {
			return common(record.Members, members), 0, wanted
		}
		return members, quorum, wanted
	case !subset(members, record.Members) || quorum < record.Quorum: // it grows: the record first
		return union(record.Members, members), min(record.Quorum, quorum), m.target
	}
	if !m.settled(wanted) { // it shrinks: PostgreSQL first
		return common(record.Members, union(record.Members, members)), record.Quorum, wanted
	}
	return members, quorum, wanted
}

// common are those that are in both, with the addresses of the second.
func common(a, b []Member) []Member {
	return slices.DeleteFunc(slices.Clone(b), func(m Member) bool { return !has(a, m.Name) })
}

// settled: PostgreSQL has been following for long enough that everything before is on a quorum of these members too.
func (m *membership) settled(sync Sync) bool {
	if !m.server.Sync.equal(sync) || sync.Quorum > 0 && m.server.SyncSince == 0 {
		return false
	}
	return m.replicas.have(m.server.SyncSince, sync.Members) >= sync.Quorum
}

// desired are the members and the quorum that should be.
func (m *membership) desired() ([]Member, int) {
	var fit []Member
	for _, name := range slices.Sorted(maps.Keys(m.replicas.known)) {
		if name != m.self && m.config.counts(name) && m.fit(name) {
			fit = append(fit, Member{Name: name, Address: m.replicas.known[name].Address})
		}
	}
	number := m.config.number()
	if m.config.required(m.record) {
		fit = m.fill(fit, number)
	}
	return fit, min(number, len(fit))
}

// fit: the replica streams and lags by little enough, or it was a member and has not been away for long. One that can't be looked at
// is what it was: the primary may be kept from asking its own server by anything.
func (m *membership) fit(name string) bool {
	w := m.replicas.known[name]
	near := w.Lag <= m.config.MaxLag
	if _, member := m.record.member(name); member {
		return w.away < m.away && (near || m.config.Number > 0)
	}
	return w.Streaming && near && w.Address != ""
}

// fill adds who is not there, former members first, until there are enough for the quorum: commits wait for them.
func (m *membership) fill(members []Member, number int) []Member {
	former := names(m.record.Members)
	for _, name := range slices.Concat(former, m.config.Peers) {
		if len(members) >= number {
			break
		}
		if name == m.self || has(members, name) || !m.config.counts(name) {
			continue
		}
		member, _ := m.record.member(name)
		members = append(members, Member{Name: name, Address: member.Address})
	}
	sortMembers(members)
	return members
}

// marked are members with what they had at least, as far as it is known.
func (m *membership) marked(members []Member) []Member {
	out := slices.Clone(members)
	for i := range out {
		if former, found := m.record.member(out[i].Name); found {
			out[i].Replayed = later(out[i].Replayed, former.Replayed)
		}
		out[i].Replayed = later(out[i].Replayed, m.replicas.replayed(out[i].Name))
	}
	return out
}

// connected are those members that get the last of the WAL from a server that is shut down. The others are taken out of the Lease
// before it is given up: should the agent end in between, nobody may come who lacks what was acknowledged.
func (m *membership) connected(members []Member) []Member {
	return slices.DeleteFunc(slices.Clone(members), func(other Member) bool { return m.server.Deserted || !m.replicas.stream(other.Name) })
}
