package supervise

import (
	"context"
	"slices"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/agentapi"
)

// A delayed replica receives WAL at once and replays it later. It has no slot at its primary: as long as it has WAL to replay, PostgreSQL
// starts no receiver again that has ended, so after a restart or a failover the slot would keep WAL for as long as the delay. What the
// primary has no more by then comes from the archive.

// delayed says whether a person wants an instance to be a delayed replica.
func delayed(config agentapi.Config, pod string) bool { return config.DelaySeconds[pod] > 0 }

// delayOf is how late a replica replays, in seconds; 0: at once.
func delayOf(config agentapi.Config, pod string, want elect.Want) int64 {
	if !want.Delayed {
		return 0
	}
	return config.DelaySeconds[pod]
}

func (s *shared) delayOf(want elect.Want) int64 { return delayOf(s.latest.config(), s.Pod, want) }

// undelayed are the instances that may read what was just written.
func undelayed(config agentapi.Config) []string {
	return slices.DeleteFunc(electorate(config).Peers, func(pod string) bool { return delayed(config, pod) })
}

// keepsFor are the instances that this server keeps WAL for. A delayed replica never becomes their primary.
func (s *slots) keepsFor(config agentapi.Config, replica bool) []string {
	if replica && delayed(config, s.Pod) {
		return nil
	}
	return slices.DeleteFunc(undelayed(config), func(pod string) bool { return pod == s.Pod })
}

// lateBy is how late the replica is to replay now, in seconds. One that was cloned or rewound is level with its primary, or nearly: it first
// replays what it has, as it receives nothing before that.
func lateBy(s *server, want elect.Want) int64 {
	delay := s.delayOf(want)
	_, followed, _ := s.progress.verdict()
	if delay > 0 && s.conf.replication.DelaySeconds == 0 && s.rejoin.tried >= byRewind && followed.IsZero() {
		return 0
	}
	return delay
}

// slotAt the primary, of this replica; empty: the primary keeps none for a delayed replica, also while that is not late yet.
func slotAt(s *server, want elect.Want) string {
	if s.delayOf(want) > 0 {
		return ""
	}
	return replicate.SlotName(s.Pod)
}

// keepDelay has a running replica replay as late as a person wants by now.
func keepDelay(s *server) {
	want := s.election.Want()
	if want.Role != elect.Follow || lateBy(s, want) == s.conf.replication.DelaySeconds {
		return
	}
	if err := s.followOther(want); err != nil {
		s.Log.Warn("how late the replica replays can't be changed yet", "error", err)
	}
}

// forkLook is how often a delayed replica that receives nothing asks whether its WAL is that of its primary.
const forkLook = 5 * time.Second

// late is what is known of a replica that may replay late.
type late struct {
	is     bool // it does
	looked time.Time
}

// lookForDelay notes whether the replica replays late by now, and tells clients if that has changed.
func (s *replicaServices) lookForDelay(told bool) {
	is := s.delayOf(s.election.Want()) > 0
	if is == s.late.is {
		return
	}
	s.late.is = is
	if told {
		s.publisher.Role(roleReplica, is)
	}
}

// lookForFork finds out whether a delayed replica has WAL that its primary doesn't have, before that is replayed.
func (s *replicaServices) lookForFork(ctx context.Context, found replicate.Position) {
	want := s.election.Want()
	if found.Streaming || !found.Waiting || want.Leader.Name == "" || time.Since(s.late.looked) < forkLook {
		return
	}
	s.late.looked = time.Now()
	asking, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	forked, err := s.replicateInstance(s.copy.generation.MajorVersion, s.copy.binDir, s.copy.paths).Forked(asking, *s.upstream(s.latest.config(), want.Leader), found)
	if err != nil {
		s.Log.Debug("whether the primary has the WAL that this replica is yet to replay can't be found out", "error", err)
		return
	}
	if forked {
		s.Log.Warn("this replica has WAL that its primary doesn't have, and has not replayed it; it is removed", "leader", want.Leader.Name, "received", found.LSN, "replayed", found.Replayed)
		s.progress.need(byCut)
	}
}
