package pitr

import "time"

// judge is where one target is weighed against one lineage.
type judge struct {
	c      *Candidate
	target Target
	facts  Facts
}

func (j *judge) judge() Verdict {
	switch {
	case j.target.Time != nil:
		return j.time(*j.target.Time)
	case !j.target.LSN.IsZero():
		return j.lsn()
	case j.target.RestorePoint != "":
		return j.point()
	case j.target.XID != 0:
		return j.xid()
	case j.target.Immediate:
		return j.stopAt(j.target)
	case j.c.Reach.Broken():
		return j.gap()
	}
	return j.toTheEnd()
}

func (j *judge) stopAt(t Target) Verdict {
	return Verdict{Code: Reachable, Target: j.target, Candidate: j.c, StopAt: t}
}

// toTheEnd of what there is. Of a segment that is still written, more may be there by the time that it is replayed.
func (j *judge) toTheEnd() Verdict {
	v := j.stopAt(Target{})
	if reach := j.c.Reach; reach.open() && !j.target.End() {
		v.Bound = reach.EndLSN
	}
	return v
}

// settled is the time from which on everything has been archived that the live cluster had committed Settle before.
func (j *judge) settled() time.Time {
	if behind := j.facts.Behind; !behind.IsZero() && behind.Before(j.facts.Read) {
		return behind
	}
	return j.facts.Read
}

// live says that more WAL may come on the timeline that is followed.
func (j *judge) live() bool {
	return j.facts.Live != "" && j.facts.Live == j.c.Lineage && !j.c.Left
}

// time: PostgreSQL stops at a time only when it meets a transaction that ended later. Where the archive has none, everything in
// it is wanted, provided that nothing else was committed until then.
func (j *judge) time(at time.Time) Verdict {
	reach := j.c.Reach
	switch last := reach.LastKnown(); {
	case at.Before(last) || reach.Unsure, j.target.excludes() && !at.After(last):
		return j.stopAt(j.target)
	case !at.After(j.c.graph.knownUntil(reach)):
		return j.toTheEnd()
	case reach.Broken():
		return j.gap()
	case !j.live():
		return j.refuse(BeyondEnd)
	case j.facts.Settle > 0 && !j.settled().Before(at.Add(j.facts.Settle)):
		return j.toTheEnd()
	case j.facts.Settle > 0:
		return j.await(at.Add(j.facts.Settle))
	}
	return j.awaitOr(BeyondEnd)
}

// lsn: where no record begins at the position or after it, everything there is comes before it. A segment that is still written may yet get one.
func (j *judge) lsn() Verdict {
	at, reach := j.target.LSN, j.c.Reach
	end := reach.Last().End()
	if reach.open() {
		end = reach.EndLSN
	}
	switch {
	case at < reach.EndLSN || at <= end && j.target.includes():
		return j.stopAt(j.target)
	case at <= end:
		return j.toTheEnd()
	case reach.Broken():
		return j.gap()
	case at.Sub(end) > farAhead || !j.live():
		return j.refuse(BeyondEnd)
	}
	return j.awaitOr(BeyondEnd)
}

// xid: only replay finds a transaction. What had committed when the restore was asked for is archived first.
func (j *judge) xid() Verdict {
	if until := j.facts.Asked.Add(j.facts.Settle); j.live() && j.facts.Settle > 0 && j.settled().Before(until) {
		return j.await(until)
	}
	return j.stopAt(j.target)
}

func (j *judge) point() Verdict {
	reach := j.c.Reach
	var behind []RestorePoint
	for _, place := range j.c.Places {
		if place.LSN >= reach.Backup.StopLSN {
			behind = append(behind, place)
		}
	}
	switch {
	case len(behind) > 1:
		v := j.refuse(PointAmbiguous)
		v.Places = behind
		return v
	case len(behind) == 1 && behind[0].LSN < reach.EndLSN:
		return j.stopAt(j.target)
	case reach.Broken():
		return j.gap()
	case j.live():
		return j.awaitOr(PointNotFound)
	}
	return j.refuse(PointNotFound)
}

// awaitOr gives WAL that may be under way some time to come.
func (j *judge) awaitOr(code Code) Verdict {
	wait := j.facts.Settle
	if wait == 0 {
		wait = patience
	}
	if until := j.facts.Asked.Add(wait); j.facts.Read.Before(until) {
		return j.await(until)
	}
	return j.refuse(code)
}

func (j *judge) await(until time.Time) Verdict {
	v := j.refuse(NotArchivedYet)
	v.Until = until
	return v
}

// gap refuses a target beyond a hole in the archive.
func (j *judge) gap() Verdict {
	v := j.refuse(Gap)
	v.Missing = j.c.Reach.Missing
	return v
}

func (j *judge) refuse(code Code) Verdict {
	return Verdict{Code: code, Target: j.target, Candidate: j.c}
}
