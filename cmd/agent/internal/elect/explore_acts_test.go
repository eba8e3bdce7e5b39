package elect

import (
	"slices"

	"howdah.dev/howdah/pkg/agentapi"
)

// see tells an instance what the Lease says.
func (u *universe) see(p *place) {
	if !p.gone && !p.paused && !p.cut {
		restarted := p.core.lease.record == nil
		p.core.SawLease(p.now, u.lease)
		if restarted && u.config.mistake == noWaitAfterRestart {
			p.core.lease.seen = p.now - 8*tick
		}
	}
}

// act has an instance decide once, and does what it has decided.
func (u *universe) act(p *place) {
	if p.gone || p.paused {
		return
	}
	u.report(p)
	acts := p.core.Step(p.now)
	p.want = acts.Want
	if acts.Refresh {
		u.see(p)
	}
	if w := acts.Write; w != nil {
		u.write(p, w)
	}
	for _, m := range acts.Ask {
		if q := u.place(m.Name); u.reach(p, q) {
			if q.core.AskedPosition(q.now, acts.Request) {
				q.upstream = ""
			}
			p.core.Heard(p.now, q.position())
		}
	}
	if question := acts.Failsafe; question != nil {
		for _, m := range question.Members {
			if q := u.place(m.Name); u.reach(p, q) {
				p.core.HeardFailsafe(question.ID, m.Name, q.core.AskedFailsafe(q.now, question.Request).Follows)
			}
		}
	}
	if question := acts.Word; question != nil {
		u.post(p, question)
	}
	u.obey(p)
	u.report(p)
	if p.leaving && p.mode == Down && !p.core.Holds() {
		p.gone = true
	}
}

func (u *universe) write(p *place, w *Write) {
	if r := p.core.Record(); w.Record.Holder == p.name && !p.core.Holds() && r.LastHolder != p.name && p.core.config.Failover.delayed(p.name) {
		u.fail("%s takes the lease, and is a delayed replica", p.name)
	}
	if p.cut {
		if u.config.mistake == countedBeforeConfirmed && p.core.holds {
			p.core.Wrote(p.now, w, Written, w.Record.Version)
			return
		}
		p.core.Wrote(p.now, w, Unknown, "")
		return
	}
	if p.unheard {
		u.apply(w)
		p.core.Wrote(p.now, w, Unknown, "")
		return
	}
	if version, done := u.apply(w); done {
		p.core.Wrote(p.now, w, Written, version)
		return
	}
	p.core.Wrote(p.now, w, Conflict, "")
}

// report tells the core how the server is.
func (u *universe) report(p *place) {
	server := Server{Mode: p.mode, Position: p.position()}
	switch p.mode {
	case Primary:
		p.disk.checkpoint = End{Timeline: p.disk.timeline(), LSN: uint64(len(p.disk.wal))}
		server.Position.Timeline, server.Position.LSN = p.disk.timeline(), uint64(len(p.disk.wal))
		server.Sync, server.SyncSince, server.Checkpoint = p.sync, p.since, p.disk.checkpoint
	case Down:
		if server.End = p.end; p.end > 0 {
			server.Position.Timeline = p.disk.timeline()
		}
		server.Deserted = p.leaving && !slices.ContainsFunc(u.places, func(r *place) bool { return r.upstream == p.name && !r.gone })
	}
	p.core.Observe(p.now, server)
	if p.mode != Primary {
		return
	}
	followers := map[string]Follower{}
	for _, r := range u.places {
		if u.streams(r) == p {
			have := uint64(len(r.disk.wal))
			followers[r.name] = Follower{Address: "ip-" + r.name, Streaming: true, Flushed: have, Replayed: r.replayed(), Lag: uint64(len(p.disk.wal)) - have}
		}
	}
	p.core.Follow(p.now, followers)
}

// obey makes the server what is wanted.
func (u *universe) obey(p *place) {
	switch want := p.want; {
	case want.Role == Stop:
		u.stop(p, want)
	case want.Role == Lead && want.Until > p.now:
		u.lead(p, want)
	case want.Role == Follow:
		u.follow(p, want)
	}
}

func (u *universe) stop(p *place, want Want) {
	if p.mode == Primary && want.Orderly { // those that stream get all of it
		p.end = uint64(len(p.disk.wal))
		p.disk.wal = append(slices.Clip(p.disk.wal), written{p.disk.timeline(), 0})
		p.disk.checkpoint = End{Timeline: p.disk.timeline(), LSN: p.end}
		for _, r := range u.places {
			if u.streams(r) == p {
				u.catchUp(r)
			}
		}
	}
	p.mode, p.upstream, p.pending = Down, "", nil
}

func (u *universe) lead(p *place, want Want) {
	switch {
	case p.mode == Primary:
		if !p.sync.equal(want.Sync) {
			p.sync, p.since = want.Sync, uint64(len(p.disk.wal))
			u.release(p)
		}
	case len(p.disk.wal) == 0:
	case p.mode == Down && p.disk.standby:
		p.mode, p.end = Replica, 0
	case p.mode == Down:
		p.end = 0
		u.open(p, want)
	case p.mode == Replica && (want.Timeline == 0 || p.disk.timeline() < want.Timeline):
		p.delay(false) // a promotion replays everything
		p.disk.wal = append(slices.Clip(p.disk.wal), written{max(p.disk.timeline()+1, want.Timeline), 0})
		p.disk.standby, p.upstream = false, ""
		u.open(p, want)
	}
}

// open lets clients write.
func (u *universe) open(p *place, want Want) {
	p.mode, p.sync, p.since = Primary, want.Sync, uint64(len(p.disk.wal))
	for _, commit := range u.acked {
		if !p.disk.has(commit) {
			u.fail("%s accepts writes, and lacks commit %d, which was acknowledged", p.name, commit)
		}
	}
	for _, q := range u.places {
		if q != p && q.mode == Primary && !q.gone && !q.paused && !u.had("pause") && !u.had("restore the Lease") {
			u.fail("%s and %s both accept writes", p.name, q.name)
		}
	}
}

func (u *universe) follow(p *place, want Want) {
	p.delay(want.Delayed)
	leader := u.place(want.Leader.Name)
	if want.Detached {
		p.upstream = ""
	} else if leader != nil {
		p.upstream = leader.name
	}
	if want.CampaignAsIs && p.mode == Down && len(p.disk.wal) > 0 {
		p.disk.standby, p.mode, p.end = true, Replica, 0
		return
	}
	up := leader != nil && leader.mode == Primary && u.reach(p, leader)
	if !p.disk.standby || p.mode == Replica && up && !leader.disk.leads(&p.disk) {
		if !up { // a former primary is rewound first
			return
		}
		p.disk = disk{wal: leader.disk.wal, standby: true, checkpoint: leader.disk.checkpoint}
	}
	p.mode, p.end = Replica, 0
}

// catchUp has a replica receive all that its primary has.
func (u *universe) catchUp(r *place) {
	if p := u.streams(r); p != nil && len(r.disk.wal) < len(p.disk.wal) {
		r.disk.wal, r.disk.checkpoint = p.disk.wal, p.disk.checkpoint
		u.release(p)
	}
}

// commit a row, which these replicas receive at once.
func (u *universe) commit(p *place, receive []*place) {
	u.last++
	u.commits--
	p.disk.wal = append(slices.Clip(p.disk.wal), written{p.disk.timeline(), u.last})
	p.pending = append(slices.Clip(p.pending), u.last)
	for _, r := range receive {
		r.disk.wal = p.disk.wal
	}
	u.release(p)
}

// release commits that enough replicas have.
func (u *universe) release(p *place) {
	if p.mode != Primary {
		return
	}
	var waiting []int
	for _, commit := range p.pending {
		have := 0
		for _, r := range u.places {
			if u.streams(r) == p && r.disk.has(commit) && slices.Contains(p.sync.Members, r.name) {
				have++
			}
		}
		switch {
		case have < p.sync.Quorum:
			waiting = append(waiting, commit)
		case u.config.degrade && u.newest.Full && p.sync.Quorum < u.config.number:
			u.fail("%s acknowledges commit %d on %d replicas, and there were %d of them once", p.name, commit, p.sync.Quorum, u.config.number)
		case u.newest.Quorum > 0 || u.config.everything || u.config.degrade && len(u.newest.Members) == 0:
			u.acked = append(u.acked, commit)
		}
	}
	p.pending = waiting
}

// pass lets time pass, but for those that stand still. The watchdog ends who may not continue.
func (u *universe) pass() {
	for _, p := range u.places {
		if p.gone || p.paused {
			continue
		}
		p.now += tick
		if p.mode == Primary && p.want.Until <= p.now {
			p.mode, p.pending = Down, nil
		}
	}
}

// prefer tells all what people want.
func (u *universe) prefer(failover Failover) {
	for _, p := range u.places {
		p.config.Failover = failover
		p.core.Configure(p.config)
	}
}

// switchover asks the holder for another primary.
func (u *universe) switchover(p *place, token string) {
	p.core.Switchover(agentapi.SwitchoverRequest{Token: token})
}
