package supervise

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	replicaTick  = time.Second
	slotInterval = 15 * time.Second
	oldCopyAge   = time.Hour // that a copy is kept after it was replaced
	syncSettle   = time.Second
	assessTime   = 2 * time.Second // that a replica may make no way until it is asked why
)

// lookAfterReplicas tells the election, and the replicas, what the primary knows of them, until ctx ends.
func (r *runner) lookAfterReplicas(ctx context.Context) {
	tick := time.NewTicker(replicaTick)
	defer tick.Stop()
	var slots time.Time
	for {
		if r.member.Holds() {
			if time.Since(slots) >= slotInterval && r.keepSlots(ctx, nil) == nil {
				slots = time.Now()
			}
			if _, err := r.tellReplicas(ctx); err != nil && ctx.Err() == nil {
				r.Log.Warn("the replicas can't be looked at", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// runReplicaServices does what a running replica needs beside its supervision, until ctx ends.
func (r *runner) runReplicaServices(ctx context.Context) {
	r.learn(ctx)
	var slots, facts time.Time
	for turn := 0; ; turn++ {
		if turn == 1 { // mostly the pod is Ready by now, so that the -ro Service takes it in once, instead of as one that isn't first
			r.publisher.Role(roleReplica)
		}
		leader, answers := r.member.Leader()
		if err := r.look(ctx, leader, answers); err != nil && ctx.Err() == nil {
			r.Log.Debug("the replica doesn't say where it is", "error", err)
		}
		if answers && time.Since(slots) >= slotInterval && r.keepSlots(ctx, r.needed(leader)) == nil {
			slots = time.Now()
			r.tidy()
		}
		if time.Since(facts) >= factsInterval {
			r.learn(ctx)
			facts = time.Now()
		}
		pause := replicaTick
		if r.member.Want().Leader.Name == "" {
			pause /= 5 // somebody is about to take over
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// look tells the election where the replica is, and notes whether it makes any way.
func (r *runner) look(ctx context.Context, leader agentapi.FollowAnswer, answers bool) error {
	var found replicate.Position
	err := r.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = replicate.LocalPosition(ctx, conn)
		return err
	})
	if err != nil {
		return err
	}
	position := positionOf(found)
	r.report(func(server *elect.Server) {
		if server.Mode == elect.Replica {
			server.Position = position
		}
	})
	r.noteProgress(found, answers)
	if found.Streaming {
		r.endReading()
	}
	if answers && r.idleFor(assessTime) {
		r.assess(ctx, found)
	}
	if answers {
		r.archiver.Confirmed(leader.ArchivedWAL, leader.Archives)
	}
	r.noteLag(found, leader, answers)
	return nil
}

// noteLag publishes how far the replica is behind. The primary's word is a second old at most, so a replica may be ahead of it.
func (r *runner) noteLag(found replicate.Position, leader agentapi.FollowAnswer, answers bool) {
	lag := int64(0)
	if answers && leader.LSN > uint64(found.Replayed) {
		lag = int64(leader.LSN - uint64(found.Replayed))
	}
	r.facts.mu.Lock()
	if lag == 0 && answers || r.facts.level.IsZero() {
		r.facts.level = time.Now()
	}
	behind := time.Since(r.facts.level).Seconds()
	r.facts.mu.Unlock()
	if lag == 0 && answers {
		behind = 0
	}
	r.set(func(status *agentapi.Status) {
		status.Replication = &agentapi.ReplicationStatus{
			Streaming: found.Streaming, ReceivedLSN: found.LSN.String(), ReplayedLSN: found.Replayed.String(),
			LagBytes: lag, LagSeconds: behind, FromArchive: r.reads(r.member.Want()),
		}
	})
}

func (r *runner) noteProgress(found replicate.Position, answers bool) {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	now := time.Now()
	moves := uint64(found.Replayed) != r.facts.replayed
	r.facts.replayed = uint64(found.Replayed)
	switch {
	case found.Streaming:
		r.facts.stuck = time.Time{}
		if r.facts.followed.IsZero() {
			r.facts.followed = now
		}
	case moves || !answers || r.archiver.Fetching():
		r.facts.stuck, r.facts.followed = time.Time{}, time.Time{}
	case r.facts.stuck.IsZero():
		r.facts.stuck, r.facts.followed = now, time.Time{}
	}
}

// tellReplicas tells the election who follows, and has an answer ready for those. It says how many are connected.
func (r *runner) tellReplicas(ctx context.Context) (int, error) {
	var written postgres.LSN
	var connected []replicate.Follower
	err := r.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		written, connected, err = replicate.Followers(ctx, conn)
		return err
	})
	if err != nil {
		return 0, err
	}
	followers := map[string]elect.Follower{}
	for _, f := range connected {
		lag := uint64(0)
		if written > f.Flushed {
			lag = uint64(written - f.Flushed)
		}
		followers[f.Pod] = elect.Follower{Streaming: f.Streaming(), Flushed: uint64(f.Flushed), Lag: lag}
	}
	r.settleSync(uint64(written))
	r.facts.mu.Lock()
	answer := agentapi.FollowAnswer{LSN: uint64(written), Timeline: r.Status().Timeline, Slots: r.facts.slots}
	r.facts.mu.Unlock()
	if answer.Archives = r.config().Archive != nil; answer.Archives {
		if answer.ArchivedWAL, err = r.archiver.Archived(); err != nil {
			return 0, err
		}
	}
	r.member.Lead(followers, answer)
	return len(connected), nil
}

// settleSync notes from which position on commits wait for whom the server was told last: all its processes have read it.
func (r *runner) settleSync(written uint64) {
	r.facts.mu.Lock()
	sync, settled := r.facts.sync, time.Since(r.facts.synced) >= syncSettle
	r.facts.mu.Unlock()
	r.report(func(server *elect.Server) {
		if server.Mode == elect.Primary && server.Sync.Quorum < 0 && settled {
			server.Sync, server.SyncSince = sync, written
		}
	})
}

// keepSlots keeps the WAL that the other instances may need.
func (r *runner) keepSlots(ctx context.Context, positions map[string]uint64) error {
	peers := slices.DeleteFunc(electorate(r.config()).Peers, func(name string) bool { return name == r.Pod })
	var kept map[string]uint64
	err := r.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		kept, err = replicate.KeepSlots(ctx, conn, peers, positions)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Log.Warn("the slots of the other instances are not as they should be", "error", err)
		}
		return err
	}
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	r.facts.slots = kept
	return nil
}

// needed is what WAL the others need by the word of the primary, which itself needs what it has not written.
func (r *runner) needed(leader agentapi.FollowAnswer) map[string]uint64 {
	positions := maps.Clone(leader.Slots)
	if positions == nil {
		positions = map[string]uint64{}
	}
	positions[r.member.Want().Leader.Name] = leader.LSN
	return positions
}

// ask asks the server a short question.
func (r *runner) ask(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return r.probe.Ask(ctx, do)
}

// locate is where the server is at this moment. Only a replica that accepts connections has a position that counts.
func (r *runner) locate(ctx context.Context) (agentapi.Position, error) {
	var found replicate.Position
	err := r.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = replicate.LocalPosition(ctx, conn)
		return err
	})
	return positionOf(found), err
}

// positionOf what was found. A replica that has not read all of its WAL yet doesn't know where it is.
func positionOf(found replicate.Position) agentapi.Position {
	if !found.Settled {
		return agentapi.Position{Streaming: found.Streaming}
	}
	return agentapi.Position{Timeline: int64(found.Timeline), LSN: uint64(found.LSN), Streaming: found.Streaming}
}

func volumeBytes(path string) int64 {
	var stat unix.Statfs_t
	if unix.Statfs(path, &stat) != nil {
		return 0
	}
	return int64(stat.Blocks) * stat.Bsize
}

// tidy removes copies that were replaced long ago.
func (r *runner) tidy() {
	current, err := r.Volume.Current()
	if err != nil {
		return
	}
	age := oldCopyAge
	if r.room.scarce() {
		age = 0
	}
	removed, err := r.Volume.RemoveOldCopies(current, age, time.Now())
	if err != nil {
		r.Log.Warn("old copies can't be removed", "error", err)
	}
	if len(removed) > 0 {
		r.Log.Info("removed copies that were replaced", "copies", removed)
	}
}
