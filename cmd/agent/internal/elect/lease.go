package elect

import "time"

// lease is what is known of the Lease, and of our own writes of it.
type lease struct {
	record  *Record // that was read or written last; nil: none yet
	seen    Time    // when its version was seen first
	refresh bool    // it is known to be old
	reread  Time    // when it was read again without a reason

	conflict   bool // the last write met another version than it knew
	rolledBack bool // what was read last is older than the record: the store was restored from a backup, or somebody has edited the Lease

	writing   *Write   // on its way
	wrote     Time     // when the last write was sent
	confirmed bool     // it has been written
	unsure    []Member // of writes whose outcome is not known
	doubt     bool     // there are such writes
	ways      [2]way   // that they name, in the order of wayOf
	since     Time     // when the record was sent, or before that; 0: a renewal that counts was sent with it, or after it
}

// write is the next one, which keeps the lease for so long. There is none on its way.
func (l *lease) write(now Time, record Record, duration time.Duration) *Write {
	record.Duration = duration
	if known := l.record; known != nil && known.Term == record.Term {
		record.Sequence = known.Sequence
	} else {
		record.Sequence = 0
	}
	record.Sequence++
	l.writing, l.wrote, l.confirmed = &Write{Record: record, Sent: now}, now, false
	return l.writing
}

// ended notes how the write on its way ended.
func (l *lease) ended(outcome Outcome) {
	write := l.writing
	l.writing = nil
	switch outcome {
	case Unknown, Conflict: // what a request has met may have been itself, sent twice by somebody on its way
		l.unsure, l.doubt = union(l.unsure, write.Record.Members), true
		l.ways[wayOf(&write.Record)].add(write.Record.Members, write.Sent)
		l.refresh, l.conflict = true, outcome == Conflict
	case Written:
		l.confirmed, l.conflict = true, false
	}
}

// stale: the Lease has to be read. One that a holder was about to create, and had lost before, is nobody's to create.
func (l *lease) stale(holds bool) bool {
	return l.refresh || l.record == nil || !holds && l.record.Version == "" && !l.record.blank()
}

// unclear: it is not known what the Lease says.
func (l *lease) unclear() bool { return l.doubt || l.writing != nil }

// exposed are all that might take the lease by what any write of ours may have said.
func (l *lease) exposed() []Member {
	all := l.unsure
	if l.record != nil {
		all = union(l.record.Members, all)
	}
	if l.writing != nil {
		all = union(all, l.writing.Record.Members)
	}
	return all
}

// news says whether a record that was read is to be taken in. One that was written before the record that is known is not: it lies
// in a store that was restored from a backup, or somebody has put it there. A holder then writes what it knows over it, and the
// version that was read is the precondition. Anybody else waits for that. Where it was only read from a server that lags, the write
// fails.
func (l *lease) news(record *Record, holds bool) bool {
	known := l.record
	switch {
	case known == nil:
		return true
	case record.older(known), holds && !record.blank() && record.precedes(known): // numbers begin again in a new Lease, but not while one is held
		first := !l.rolledBack
		if l.rolledBack = l.rolledBack || l.conflict || record.newer(known); l.rolledBack && holds {
			if first {
				l.wrote = 0 // at once
			}
			rewritten := *known
			rewritten.Version, rewritten.Created = record.Version, record.Created
			l.record, l.confirmed = &rewritten, false
		}
		return false
	}
	return record.newer(known) || known.older(record)
}

// unrivalled: nobody can take the lease, as there has never been an election, or as it is held and nobody else is left in it.
func (l *lease) unrivalled(holds bool) bool {
	return len(l.exposed()) == 0 && (holds || l.record != nil && l.record.blank())
}
