package elect

import (
	"maps"
	"slices"
)

// membership is what the next record says of members and quorum. On the way it sets target, which PostgreSQL follows.
//
// Two things hold at every moment while the record has a quorum: PostgreSQL waits for one that is no smaller, of members that
// are all in the record; and what was acknowledged before is on as many members of the record as it says. So whoever counts
// on the record can't miss a commit. A record without members is always right: then only the holder itself may go on.
func (c *Core) membership(now Time) ([]Member, int) {
	record := c.record
	members, quorum := c.desired(now)
	switch {
	case c.doubt || c.writing != nil: // it is not known what the Lease says: nothing is built on it
		return record.Members, record.Quorum
	case record.Quorum > 0 && len(members) == 0: // nobody is left to wait for, and nobody may take over from here on
		return nil, 0
	case record.Quorum == 0 && quorum > 0: // PostgreSQL waits already before anybody counts on it
		if c.target = (Sync{Quorum: quorum, Members: names(members)}); !c.settled(c.target) {
			return common(record.Members, members), 0
		}
		return members, quorum
	case !subset(members, record.Members) || quorum < record.Quorum: // it grows: the record first
		return union(record.Members, members), min(record.Quorum, quorum)
	}
	if c.target = (Sync{Quorum: quorum, Members: names(members)}); !c.settled(c.target) { // it shrinks: PostgreSQL first
		return common(record.Members, union(record.Members, members)), record.Quorum
	}
	return members, quorum
}

// common are those that are in both, with the addresses of the second.
func common(a, b []Member) []Member {
	return slices.DeleteFunc(slices.Clone(b), func(m Member) bool { return !has(a, m.Name) })
}

// settled: PostgreSQL has been following for long enough that everything before is on a quorum of these members too.
func (c *Core) settled(sync Sync) bool {
	if !c.server.Sync.equal(sync) || sync.Quorum > 0 && c.server.SyncSince == 0 {
		return false
	}
	have := 0
	for _, name := range sync.Members {
		if w := c.members[name]; w != nil && w.Flushed >= c.server.SyncSince {
			have++
		}
	}
	return have >= sync.Quorum
}

// desired are the members and the quorum that should be.
func (c *Core) desired(now Time) ([]Member, int) {
	var fit []Member
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		if name != c.self.Name && slices.Contains(c.config.Peers, name) && c.fit(now, name) {
			fit = append(fit, Member{Name: name, Address: c.members[name].Address})
		}
	}
	number := max(0, min(c.config.Number, len(c.config.Peers)-1))
	if c.config.Required {
		fit = c.fill(fit, number)
	}
	return fit, min(number, len(fit))
}

// fit: the replica streams and is lags by little enough, or it was a member and has not been away for long.
func (c *Core) fit(now Time, name string) bool {
	w := c.members[name]
	near := w.Lag <= c.config.MaxLag
	if _, member := c.record.member(name); member {
		return now < w.last+c.limits.Away && (near || c.config.Number > 0)
	}
	return w.Streaming && near && w.Address != ""
}

// fill adds who is not there, former members first, until there are enough for the quorum: commits wait for them.
func (c *Core) fill(members []Member, number int) []Member {
	former := names(c.record.Members)
	for _, name := range slices.Concat(former, c.config.Peers) {
		if len(members) >= number {
			break
		}
		if name == c.self.Name || has(members, name) || !slices.Contains(c.config.Peers, name) {
			continue
		}
		member, _ := c.record.member(name)
		members = append(members, Member{Name: name, Address: member.Address})
	}
	sortMembers(members)
	return members
}
