package supervise

import (
	"context"
	"path/filepath"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/postgres"
)

// A replica whose WAL is gone from the primary reads it from the archive, and is cloned only if that has it not. It has a
// restore_command only as long as that lasts: PostgreSQL would call it several times in every promotion.

// archivePatience is how long a replica that makes no way waits for an archive that can't be asked.
const archivePatience = 10 * time.Second

// reading is whose archived WAL a replica reads; zero: none.
type reading struct {
	leader string
	term   int64
}

// idleFor says whether the replica has made no way for so long though its primary answers.
func (r *runner) idleFor(d time.Duration) bool {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	return !r.facts.stuck.IsZero() && time.Since(r.facts.stuck) >= d
}

// assess finds out what a replica that makes no way needs.
func (r *runner) assess(ctx context.Context, found replicate.Position) {
	want := r.member.Want()
	if !found.Settled || want.Leader.Name == "" {
		return
	}
	r.facts.mu.Lock()
	instance := r.facts.instance
	r.facts.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	remedy, history, err := instance.Assess(asking, *r.upstream(want.Leader), found)
	if err != nil {
		r.Log.Debug("what the replica needs can't be found out", "error", err)
		return
	}
	needs := map[replicate.Remedy]way{replicate.ByRewind: byRewind, replicate.ByClone: byClone}[remedy]
	if needs == byClone && r.archiveHelps(ctx, want, history, found.LSN) {
		needs = asItIs
	}
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	r.facts.remedy = needs
}

// archiveHelps has a replica whose WAL is gone from the primary read the archive, and says false if that is of no use.
func (r *runner) archiveHelps(ctx context.Context, want elect.Want, history postgres.TimelineHistory, lsn postgres.LSN) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	offers, err := r.archiver.Offers(ctx, history, lsn)
	if err == nil && offers {
		err = r.archiver.Supply(history, filepath.Join(r.Volume.Dir(r.adopted.generation.ID), "fetched"))
	}
	if err != nil {
		r.Log.Debug("the archive can't be asked for the WAL that the primary has no more", "error", err)
		return !r.idleFor(archivePatience)
	}
	if !offers {
		return false
	}
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	if now := (reading{want.Leader.Name, want.Term}); r.facts.reads != now {
		r.facts.reads = now
		r.Log.Info("the primary has no more the WAL that this replica needs; it is read from the archive", "leader", now.leader, "from", lsn)
	}
	return true
}

// reads says whether a replica that follows as wanted is to read the archive.
func (r *runner) reads(want elect.Want) bool {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	return r.facts.reads != reading{} && r.facts.reads == reading{want.Leader.Name, want.Term}
}

// endReading is for a replica that gets what it needs from its primary, or has another one, whose history may be another.
func (r *runner) endReading() {
	r.facts.mu.Lock()
	was := r.facts.reads
	r.facts.reads = reading{}
	r.facts.mu.Unlock()
	if was != (reading{}) {
		r.archiver.EndSupply()
		r.Log.Info("the replica reads the archive no more")
	}
}

// keepReading has the server call for archived WAL as long as it is to.
func (r *runner) keepReading(server *postmaster.Server) {
	want := r.member.Want()
	if want.Role != elect.Follow || r.reads(want) == r.replication.FromArchive {
		return
	}
	if err := r.followOther(server, want); err != nil {
		r.Log.Warn("whether the replica reads the archive can't be changed yet", "error", err)
	}
}
