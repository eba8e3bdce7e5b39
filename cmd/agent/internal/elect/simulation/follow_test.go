package simulation

import (
	"slices"

	"howdah.dev/howdah/cmd/agent/internal/elect"
)

func (a *agent) follow(s *server) {
	v, leader := &a.node.volume, a.leader()
	switch {
	case a.busy:
	case s == nil && a.want.CampaignAsIs && len(v.wal) > 0 && !v.torn:
		a.startReplica()
	case s == nil && (len(v.wal) == 0 || v.torn):
		a.copy(leader)
	case s == nil && (!v.standby || leader != nil && !v.follows(&leader.node.volume)): // a former primary is always rewound
		a.copy(leader)
	case s == nil:
		a.startReplica()
	case s.mode == elect.Replica && s.odd:
		a.kill("PostgreSQL is stopped to be rewound")
		a.copy(leader)
	}
}

// leader is the server that is to be followed, if it can be asked.
func (a *agent) leader() *server {
	n := a.node.w.node(a.want.Leader.Name)
	if a.want.Role != elect.Follow || n == nil || n.agent == nil || n.isFrozen() {
		return nil
	}
	s, w := n.agent.server, a.node.w
	if s == nil || !s.accepts() || !w.open(a.node.name, n.name) || !w.open(n.name, a.node.name) {
		return nil
	}
	return s
}

// copy rewinds to, or clones from a primary. Until it ends there is nothing to start.
func (a *agent) copy(from *server) {
	if from == nil {
		return
	}
	v, w := &a.node.volume, a.node.w
	d := w.between(second/2, 3*second)
	if len(v.wal) == 0 || v.torn {
		d = w.between(second, 6*second)
	}
	w.log("%s: begins to copy from %s", a.node.name, from.node.name)
	a.busy, v.torn, v.wal = true, true, nil
	end := w.now + d
	w.every(200*millisecond, func() bool {
		if a.dead {
			return false
		}
		switch {
		case a.leader() != from:
			w.log("%s: can't copy from %s any more", a.node.name, from.node.name)
			a.busy = false
		case w.now < a.node.hung:
		case w.now >= end:
			v.checkpoint = from.node.volume.checkpoint
			v.wal, v.torn, v.standby, v.copied = slices.Clone(from.node.volume.wal), false, true, true
			a.busy = false
			w.log("%s: has a copy of %s", a.node.name, from.node.name)
		}
		return a.busy
	})
}

// stream connects a replica to its primary.
func (a *agent) stream() {
	s := a.server
	if s == nil || s.dead || s.mode != elect.Replica || a.node.w.now < s.unsettled {
		return
	}
	leader := a.leader()
	if s.upstream != nil {
		if a.want.Role == elect.Follow && (a.want.Detached || a.want.Leader.Name != "" && s.upstream.primary.node.name != a.want.Leader.Name) {
			s.upstream.cut()
			s.upstream = nil
		}
		return
	}
	if leader == nil || slices.ContainsFunc(leader.links, func(l *link) bool { return l.replica.node == a.node }) {
		return // the slot is in use; otherwise one replica would count twice in a quorum
	}
	if s.odd = !a.node.volume.follows(&leader.node.volume); !s.odd {
		s.connect(leader)
	}
}
