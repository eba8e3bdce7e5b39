package supervise

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/cmd/agent/internal/space"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	spaceTick     = time.Second
	takersPause   = 5 * time.Second // between two looks at what takes the space
	spaceQuestion = `SELECT slot_name::text, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
		ELSE pg_current_wal_lsn() END, restart_lsn)::int8 FROM pg_replication_slots WHERE restart_lsn IS NOT NULL ORDER BY restart_lsn LIMIT 1`
)

// room is what is known of the space on the volume.
type room struct {
	state  atomic.Int32 // space.State
	takers space.Takers // of the goroutine of watchSpace, as the rest
	looked time.Time
	told   bool // that no space can be held back
	// filling is how fast it fills.
	filling space.Filling
}

// full says that the volume is full, so that clients may only read.
func (r *room) full() bool { return space.State(r.state.Load()) == space.Full }

// scarce says that there is little space.
func (r *room) scarce() bool { return space.State(r.state.Load()) != space.Enough }

func (r *runner) disk() space.Volume { return space.Volume(r.Volume) }

// watchSpace looks how full the volume is, holds a reserve back while there is room, and publishes what it sees, until ctx
// ends.
func (r *runner) watchSpace(ctx context.Context) {
	tick := time.NewTicker(spaceTick)
	defer tick.Stop()
	for {
		r.lookAtSpace(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *runner) lookAtSpace(ctx context.Context) {
	usage, err := r.disk().Measure()
	if err != nil {
		r.Log.Warn("the space on the volume is not known", "error", err)
		return
	}
	before := space.State(r.room.state.Load())
	state := usage.Next(before)
	r.room.state.Store(int32(state))
	if state != before || time.Since(r.room.looked) >= takersPause {
		r.lookForTakers(ctx, state)
		r.room.filling.Add(usage, r.room.looked)
	}
	r.room.takers.Usage = usage
	r.publishSpace(state, state != before)
	if held, err := r.disk().Hold(usage); held {
		r.Log.Info("space is held back for recovery")
	} else if err != nil && !r.room.told {
		r.room.told = true
		r.Log.Warn("no space can be held back for recovery", "error", err)
	}
}

// lookForTakers finds out what takes the space; of a server that doesn't answer its slots stay as they were.
func (r *runner) lookForTakers(ctx context.Context, state space.State) {
	r.room.looked = time.Now()
	id, err := r.Volume.Current()
	if err != nil {
		return
	}
	dir := filepath.Join(r.Volume.PGData(id), "pg_wal")
	var waiting []string
	takers := &r.room.takers
	takers.ArchiveError = ""
	if health := r.Status().Archive; health != nil {
		waiting, _ = archive.Ready(dir) // none is as good as not known
		takers.ArchiveError = health.Error
	}
	takers.WAL, takers.Unarchived = space.WAL(dir, waiting)
	if state == space.Enough {
		takers.SlotHolder, takers.SlotBytes = "", 0
		return
	}
	_ = r.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var slot string
		err := conn.QueryRow(ctx, spaceQuestion).Scan(&slot, &takers.SlotBytes)
		takers.SlotHolder = r.holderOf(slot)
		if errors.Is(err, pgx.ErrNoRows) {
			takers.SlotHolder, takers.SlotBytes, err = "", 0, nil
		}
		return err
	})
}

// holderOf a slot is an instance, or somebody whom only the slot names.
func (r *runner) holderOf(slot string) string {
	peers := electorate(r.config()).Peers
	if i := slices.IndexFunc(peers, func(peer string) bool { return replicate.SlotName(peer) == slot }); i >= 0 {
		return peers[i]
	}
	return "the replication slot " + slot
}

func (r *runner) publishSpace(state space.State, changed bool) {
	takers := r.room.takers
	seen := &agentapi.VolumeStatus{
		Bytes: takers.Usage.Total, UsedBytes: takers.Usage.Used(), WALBytes: takers.WAL,
		State: map[space.State]string{space.AlmostFull: agentapi.VolumeAlmostFull, space.Full: agentapi.VolumeFull}[state],
	}
	seen.FullAt = r.room.filling.FullAt(takers.Usage)
	if state != space.Enough {
		seen.Cause = takers.Cause()
	}
	r.set(func(status *agentapi.Status) { status.Volume = seen })
	switch {
	case changed && state == space.Enough:
		r.Log.Info("the volume has space again")
	case changed:
		r.Log.Warn("the volume is filling", "state", seen.State, "cause", seen.Cause)
	}
}

// keepReadOnly has clients of a running server only read while the volume is full, and lets them write again once it isn't.
// Sessions go on: what they begin from now on is read-only, unless they say otherwise, as who makes room has to.
func (r *runner) keepReadOnly(server *postmaster.Server) {
	full := r.room.full()
	if r.replication.ReadOnly == full {
		return
	}
	replication := r.replication
	replication.ReadOnly = full
	files, err := settings.Render(r.effect, r.adopted.generation.MajorVersion, r.adopted.paths, replication)
	if err == nil {
		err = files.Write(r.adopted.paths)
	}
	if err == nil {
		err = server.Reload()
	}
	if err != nil {
		r.Log.Error("clients can't be kept from writing, or be let", "readOnly", full, "error", err)
		if errors.Is(err, syscall.ENOSPC) {
			r.makeRoom()
		}
		return
	}
	r.replication, r.files = replication, files
	r.Log.Warn("changed whether clients may write", "readOnly", full)
}

// makeRoom gives PostgreSQL the reserve when it is to start, or to stop, with hardly any space.
func (r *runner) makeRoom() {
	usage, err := r.disk().Measure()
	if err != nil || !usage.Tight() || usage.Reserve == 0 {
		return
	}
	r.room.state.Store(int32(space.Full)) // so that it comes up for readers only
	if err := r.disk().Release(); err != nil {
		r.Log.Error("the reserve can't be released", "error", err)
		return
	}
	r.Log.Warn("released the reserve, as the volume is full", "bytes", usage.Reserve)
}
