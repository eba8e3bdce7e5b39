package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
)

// promoteTime is how long a promotion may take. What is left to replay at its end is little: the replica has followed.
const promoteTime = time.Minute

// promote makes the running replica the primary. Commits wait for whom the election says from the first one on, as a
// replica has that setting before.
func (r *runner) promote(ctx context.Context, server *postmaster.Server) (mode, error) {
	began := time.Now()
	want := r.member.Want()
	if !r.member.Guard() {
		return replicaMode, nil // no more
	}
	r.report(func(server *elect.Server) { server.Mode = elect.Starting })
	r.endReading()
	synced := want.Sync.Quorum == 0 || synchronousNames(want.Sync) == r.replication.Synchronous
	if !synced || r.replication.FromArchive {
		r.replication.FromArchive = false
		if !synced {
			r.replication.Synchronous = synchronousNames(want.Sync)
			r.told(want.Sync)
		}
		if err := r.reloadReplication(ctx, server); err != nil {
			return r.unpromoted(server, err)
		}
	}
	r.settle()
	limited, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	if found, err := r.chooseTimeline(limited, want.Timeline); err != nil {
		return r.unpromoted(server, err)
	} else if want.Timeline > 0 && found.Timeline >= want.Timeline { // a promotion was interrupted; the election finds a later one
		r.report(func(server *elect.Server) { server.Mode, server.Position = elect.Replica, found })
		r.startServices(ctx, replicaMode)
		return replicaMode, nil
	}
	err := r.probe.Ask(limited, func(ctx context.Context, conn *pgx.Conn) error { return replicate.Promote(ctx, conn) })
	if err != nil {
		return r.unpromoted(server, err)
	}
	r.promoted(began)
	r.archiver.SetPrimary(true)
	r.startServices(ctx, primaryMode)
	r.applySync(ctx, server, r.member.Want().Sync)
	return primaryMode, nil
}

// chooseTimeline has the promotion begin the timeline that nobody else may begin, once the replica knows where it is.
func (r *runner) chooseTimeline(ctx context.Context, wanted int64) (found agentapi.Position, err error) {
	for wanted > 0 {
		if found, err = r.locate(ctx); err != nil {
			return found, err
		}
		if found.Timeline > 0 {
			return found, replicate.SkipTimelines(r.adopted.pgdata, found.Timeline, wanted)
		}
		select {
		case <-ctx.Done():
			return found, ctx.Err()
		case <-time.After(startPoll):
		}
	}
	return found, nil
}

// promoted lets the clients in first, and the rest follows.
func (r *runner) promoted(began time.Time) {
	r.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Primary, Sync: elect.Sync{Quorum: -1}} }) // until it is known since when
	r.publisher.Set(true)
	r.publisher.Role(rolePrimary)
	r.replication.Upstream = nil
	took := time.Since(began)
	r.set(func(status *agentapi.Status) {
		status.Role, status.Replication = rolePrimary, nil
	})
	r.mu.Lock()
	r.promotedAt, r.promotionTook = began.UTC(), took
	r.mu.Unlock()
	r.rejoin = rejoin{}
	r.Log.Info("promoted to primary", "took", took.Round(time.Millisecond).String())
}

// unpromoted ends a server that is neither replica nor primary for sure. It is started again as what is wanted then.
func (r *runner) unpromoted(server *postmaster.Server, err error) (mode, error) {
	r.Log.Error("the promotion failed", "error", err)
	r.kill(server)
	return replicaMode, errChanged
}

// reloadReplication has the server read the files of its present replication settings, and returns when it has.
func (r *runner) reloadReplication(ctx context.Context, server *postmaster.Server) error {
	files, err := settings.Render(r.effect, r.adopted.generation.MajorVersion, r.adopted.paths, r.replication)
	if err != nil {
		return err
	}
	if err := r.reload(ctx, server, files); err != nil {
		return err
	}
	r.files = files
	return nil
}

// applySync makes commits of the primary wait for whom the election says. If it fails it is tried again: the election goes
// on asking.
func (r *runner) applySync(ctx context.Context, server *postmaster.Server, sync elect.Sync) {
	replication := r.primaryReplicationOf(sync)
	if sameReplication(replication, r.replication) {
		return
	}
	before := r.replication
	r.replication = replication
	if err := r.reloadReplication(ctx, server); err != nil {
		r.replication, r.unsynced = before, true
		r.Log.Warn("synchronous_standby_names can't be changed yet", "error", err)
		return
	}
	r.unsynced = false
	r.Log.Info("changed whom commits wait for", "synchronous_standby_names", replication.Synchronous)
	r.facts.mu.Lock()
	r.facts.sync, r.facts.synced = sync, time.Now()
	r.facts.mu.Unlock()
	r.report(func(server *elect.Server) { server.Sync = elect.Sync{Quorum: -1} }) // neither, until all processes have it
}

func (r *runner) primaryReplicationOf(sync elect.Sync) settings.Replication {
	return settings.Replication{Pod: r.Pod, Slot: "", Synchronous: synchronousNames(sync), VolumeBytes: r.replication.VolumeBytes, ReadOnly: r.replication.ReadOnly}
}
