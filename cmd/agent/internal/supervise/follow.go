package supervise

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// leaderPoll is how soon to look again whether the primary is up.
const leaderPoll = 200 * time.Millisecond

// follow runs the server as a replica, on a copy that is made fit for that first.
func (r *runner) follow(ctx context.Context, want elect.Want) error {
	config := r.inputs.config
	g, how := r.repair.method(ctx, config.DataGeneration)
	if r.reinits.wants(g.ID) && r.election.answers(want) && r.latest.repairsPaused() == "" {
		how = byClone
	}
	if want.CampaignAsIs && how != asItIs && r.repair.campaignsAsIs(ctx, config.DataGeneration) {
		r.Log.Warn("the copy has to be rewound or cloned, and there is no primary to do that from; starting as a replica to campaign", "copy", g.ID, "method", how.String())
		if err := asStandby(r.Volume.PGData(g.ID)); err != nil {
			return r.unable(ctx, err)
		}
		how = asItIs
	}
	if how == asItIs {
		if err := r.adopt(ctx); err != nil {
			return r.unable(ctx, err)
		}
		s := r.newServer(replicaMode)
		s.endReading()
		s.progress.begin()
		s.followWith(want)
		s.vacate(ctx)
		return r.live(ctx, s)
	}
	if is, err := r.heldFrom(ctx, how); is {
		return err
	}
	if want.Leader.Name == "" {
		return r.rest(ctx, "This instance waits for a primary, to follow it. "+want.Why)
	}
	if !r.election.answers(want) {
		return r.restFor(ctx, leaderPoll, fmt.Sprintf("This instance waits for %s to be up as the primary, to follow it.", want.Leader.Name))
	}
	if pause, why := r.repair.cloneIn(how, want.Leader.Name); pause > 0 {
		return r.restFor(ctx, pause, why)
	}
	return r.repair.do(ctx, want, config, g, how)
}

// asStandby makes the next server on a data directory a replica, unless it is one anyway.
func asStandby(pgdata string) error {
	if standby, err := settings.IsStandby(pgdata); standby || err != nil {
		return err
	}
	return settings.MarkStandby(pgdata)
}

// vacate leads clients away before a replica starts: where this pod was the primary, the slice may still lead to it.
func (s *server) vacate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	s.stragglers = s.publisher.Vacate(ctx)
}

// followWith makes the replication settings those of a replica.
func (s *server) followWith(want elect.Want) {
	s.election.told(want.Sync)
	reads := s.progress.readsFor(want)
	if !reads {
		s.endReading()
	}
	upstream := s.conf.replication.Upstream // while there is nobody to follow, nothing is changed
	if leader := want.Leader; want.Detached {
		upstream = nil
	} else if leader.Name != "" && leader.Address != "" {
		upstream = s.upstream(s.latest.config(), leader)
	}
	s.conf.replication = settings.Replication{
		Pod: s.Pod, Slot: slotAt(s, want), Synchronous: namesBefore(s.latest.config(), want.Sync), StandbySlots: s.memberSlots(),
		VolumeBytes: volumeBytes(string(s.Volume)), WALVolumeBytes: s.walVolumeBytes(), ReadOnly: s.disk.full(), FromArchive: reads, Upstream: upstream,
		DelaySeconds: lateBy(s, want),
	}
}

// endReading is for a replica that doesn't read the archive, or not the WAL that it read before.
func (s *server) endReading() {
	if s.progress.endReading(s.archiver) {
		s.Log.Info(readsNoMore)
	}
}

// followOther makes a running replica follow who is to be followed now.
func (s *server) followOther(want elect.Want) error {
	before := s.conf.replication
	s.followWith(want)
	if sameReplication(before, s.conf.replication) {
		return nil
	}
	if err := s.conf.rewrite(s.postmaster, s.conf.replication); err != nil {
		return fmt.Errorf("follow %s: %w", want.Leader.Name, err)
	}
	s.Log.Info("the replica follows", "leader", want.Leader.Name, "term", want.Term, "detached", want.Detached)
	return nil
}

// keepReading has the server call for archived WAL as long as it is to.
func (s *server) keepReading() {
	want := s.election.Want()
	if want.Role != elect.Follow || s.progress.readsFor(want) == s.conf.replication.FromArchive {
		return
	}
	if err := s.followOther(want); err != nil {
		s.Log.Warn("whether the replica reads the archive can't be changed yet", "error", err)
	}
}

// stuckTime is how long a replica may not follow a primary that answers.
const stuckTime = 20 * time.Second

// checkUp ends a replica that can't follow.
func (s *server) checkUp(ctx context.Context) error {
	if s.as != replicaMode {
		return nil
	}
	s.keepReading()
	keepDelay(s)
	if heldUp(s, inNeed(s)) {
		return nil
	}
	if s.reinits.wants(s.copy.generation.ID) && s.election.answers(s.election.Want()) {
		s.Log.Info("the replica is stopped, as a new clone was requested", "copy", s.copy.generation.ID)
		return giveUp(ctx, s)
	}
	if err := restartWithEnough(ctx, s); err != nil {
		return err
	}
	stuck, followed, needs := s.progress.verdict()
	if !followed.IsZero() && time.Since(followed) > longLife {
		*s.rejoin = rejoin{}
	}
	if !cannotFollow(stuck, needs) {
		return nil
	}
	s.Log.Warn("the replica can't follow the primary, although the primary responds", "remedy", needs.String(), "complaint", s.postmaster.Complaint())
	s.rejoin.failed(s.postmaster.Complaint())
	s.rejoin.next = max(s.rejoin.next, needs)
	return giveUp(ctx, s)
}

// cannotFollow says whether a replica follows no more, or not without another copy, though its primary answers.
func cannotFollow(stuck time.Time, needs method) bool {
	return needs != asItIs || !stuck.IsZero() && time.Since(stuck) >= stuckTime
}

// inNeed says what would be done with a running replica; empty: nothing.
func inNeed(s *server) string {
	stuck, _, needs := s.progress.verdict()
	lacks := s.progress.lacks()
	switch {
	case s.as != replicaMode:
		return ""
	case lacks != "":
		return "PostgreSQL is not restarted with as much of " + lacks + " as its primary has."
	case !cannotFollow(stuck, needs):
		return ""
	case needs == byClone:
		return "The data is not cloned, though the replica can't follow without that."
	}
	return "The data is not rewound, though the replica can't follow."
}

// giveUp ends a replica so that its copy is made fit, or anew.
func giveUp(ctx context.Context, s *server) error {
	if err := s.end(); err != nil {
		s.Log.Warn("the replica did not shut down cleanly", "error", err)
	}
	if ctx.Err() != nil {
		return stopped{}
	}
	return errRejoin
}

func sameReplication(a, b settings.Replication) bool {
	if (a.Upstream == nil) != (b.Upstream == nil) || a.Upstream != nil && *a.Upstream != *b.Upstream {
		return false
	}
	a.Upstream, b.Upstream = nil, nil
	a.VolumeBytes, a.WALVolumeBytes = b.VolumeBytes, b.WALVolumeBytes
	return a == b
}

// synchronousNames is a value of synchronous_standby_names.
// anyStandby has commits wait for whoever comes first.
const anyStandby = "ANY 1 (*)"

// namesBefore are those of a replica, on which they have no effect. But they have the checkpointer set that commits wait, long before a promotion:
// it may be busy then, and sessions that read are there already.
func namesBefore(config agentapi.Config, s elect.Sync) string {
	if names := synchronousNames(s); names != "" || config.Synchronous == nil {
		return names
	}
	return anyStandby
}

func synchronousNames(s elect.Sync) string {
	if s.Quorum == 0 || len(s.Members) == 0 {
		return ""
	}
	names := ""
	for i, name := range s.Members {
		if i > 0 {
			names += ","
		}
		names += postgres.QuoteIdentifier(name)
	}
	return fmt.Sprintf("ANY %d (%s)", s.Quorum, names)
}

func volumeBytes(path string) int64 {
	var stat unix.Statfs_t
	if unix.Statfs(path, &stat) != nil {
		return 0
	}
	return int64(stat.Blocks) * stat.Bsize
}
