package elect

import "time"

// lease is what is known of the Lease, and of our own writes of it.
type lease struct {
	duration time.Duration // that ours have

	record  *Record // that was read or written last; nil: none yet
	seen    Time    // when its version was seen first
	refresh bool    // it is known to be old
	reread  Time    // when it was read again without a reason

	writing   *Write   // on its way
	wrote     Time     // when the last write was sent
	confirmed bool     // it has been written
	unsure    []Member // of writes whose outcome is not known
	doubt     bool     // there are such writes
}

// write is the next one. There is none on its way.
func (l *lease) write(now Time, record Record) *Write {
	record.Duration = l.duration
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
		l.refresh = true
	case Written:
		l.confirmed = true
	}
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
