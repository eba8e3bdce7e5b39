package supervise

import (
	"slices"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// A client of logical replication gets a commit once the primary has it, so it could have what a failover undoes, and would be told the
// next row under a position that it knows already. With synchronized_standby_slots it waits for replicas, unless its slot doesn't survive
// a failover anyway.
//
// PostgreSQL waits for all that are named there, not for a quorum of them. Named are those that the Lease says may take over: whoever of
// them does has what any client has got. Who streams and is about to become a member is named before. One that is away is no member after
// a few seconds, and can't take over from then on; so it holds nobody up for longer than that. Where commits wait for it, clients do too.

// memberSlots are the slots of the others that may take over, as a value of synchronized_standby_slots.
func (s *shared) memberSlots() string {
	status := s.election.Status()
	if status == nil || !decodes(s.latest.config()) {
		return ""
	}
	return slotList(s.Pod, status.Members)
}

// decodes says whether a configuration asks for logical replication.
func decodes(config agentapi.Config) bool { return config.Parameters["wal_level"] == "logical" }

func slotList(self string, pods []string) string {
	var names []string
	for _, pod := range pods {
		if pod != self {
			names = append(names, replicate.SlotName(pod))
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// keepStandbySlots has clients of logical replication wait for those that may take over by now.
func (s *server) keepStandbySlots() {
	if s.as != primaryMode || !s.election.Holds() {
		return
	}
	kept, status := s.slots.positions(), s.election.Status()
	if kept == nil || status == nil || !decodes(s.latest.config()) {
		return
	}
	wanted := append(s.slots.nearby(), status.Members...)
	// Everybody would wait for a slot that there isn't.
	s.waitFor(slotList(s.Pod, slices.DeleteFunc(wanted, func(pod string) bool { return kept[pod] == 0 })))
}

// forgetAbsent has them wait, while the server ends, only for replicas that are there: it would not end as long as they wait. After an
// orderly end nobody takes over who lacks any of its WAL, and the Lease is given up with none as a member that isn't there.
func (s *server) forgetAbsent() {
	if s.as != primaryMode || s.conf.replication.StandbySlots == "" {
		return
	}
	s.waitFor(slotList(s.Pod, s.slots.present()))
}

func (s *server) waitFor(slots string) {
	replication := s.conf.replication
	if replication.StandbySlots == slots {
		return
	}
	replication.StandbySlots = slots
	if s.keepsSlots() {
		if err := s.conf.rewrite(s.postmaster, replication); err != nil {
			s.Log.Warn("synchronized_standby_slots can't be changed yet", "error", err)
			return
		}
		s.Log.Info("changed whom clients of logical replication wait for", "synchronized_standby_slots", slots)
	}
	s.conf.replication = replication
}

// keepsSlots says whether the server and its replicas keep logical slots through a failover.
func (s *server) keepsSlots() bool {
	replication := settings.Replication{Logical: s.conf.logical}
	return replication.KeepsSlots(s.copy.generation.MajorVersion, s.conf.effect.Parameters)
}

// follow takes in who follows a primary.
func (s *slots) follow(streaming, near []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streaming, s.near = streaming, near
}

// unknown says whether a replica streams by a slot that was not there when they were looked at last.
func (s *slots) unknown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.streaming, func(pod string) bool { return s.kept[pod] == 0 })
}

func (s *slots) present() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.streaming)
}

func (s *slots) nearby() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.near)
}
