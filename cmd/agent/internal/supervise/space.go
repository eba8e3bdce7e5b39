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
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/space"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	spaceTick     = time.Second
	takersPause   = 5 * time.Second // between two looks at what takes the space, and at the copies on the volume
	spaceQuestion = `SELECT slot_name::text, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
		ELSE pg_current_wal_lsn() END, restart_lsn)::int8 FROM pg_replication_slots WHERE restart_lsn IS NOT NULL ORDER BY restart_lsn LIMIT 1`
)

// diskSpace is that of the volume. Any goroutine may use it; what is only found out by watch is in occupancy.
type diskSpace struct {
	*instance
	latest *latest
	state  atomic.Int32 // space.State
}

// occupancy is what watch has found out. Only its goroutine uses it.
type occupancy struct {
	*diskSpace
	takers  space.Takers
	looked  time.Time
	told    bool          // that no space can be held back
	filling space.Filling // how fast the volume fills
}

// full says that the volume is full, so that clients may only read.
func (d *diskSpace) full() bool { return space.State(d.state.Load()) == space.Full }

// scarce says that there is little space.
func (d *diskSpace) scarce() bool { return space.State(d.state.Load()) != space.Enough }

func (d *diskSpace) volume() space.Volume { return space.Volume(d.Volume) }

// watch looks how full the volume is, holds a reserve back while there is room, and publishes what it sees, until ctx
// ends.
func (d *diskSpace) watch(ctx context.Context) {
	tick := time.NewTicker(spaceTick)
	defer tick.Stop()
	go holdSubscriptions(ctx, d)
	o := &occupancy{diskSpace: d}
	for {
		o.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (o *occupancy) look(ctx context.Context) {
	usage, err := o.volume().Measure()
	if err != nil {
		o.Log.Warn("the space on the volume is not known", "error", err)
		return
	}
	before := space.State(o.state.Load())
	state := usage.Next(before)
	o.state.Store(int32(state))
	if state != before || time.Since(o.looked) >= takersPause {
		o.tellCopies() // a clone leaves one, and it is removed later
		o.lookForTakers(ctx, state)
		o.filling.Add(usage, o.looked)
	}
	o.takers.Usage = usage
	o.publish(state, state != before)
	if held, err := o.volume().Hold(usage); held {
		o.Log.Info("space is reserved for recovery")
	} else if err != nil && !o.told {
		o.told = true
		o.Log.Warn("no space can be reserved for recovery", "error", err)
	}
}

// lookForTakers finds out what takes the space; of a server that doesn't respond its slots stay as they were.
func (o *occupancy) lookForTakers(ctx context.Context, state space.State) {
	o.looked = time.Now()
	id, err := o.Volume.Current()
	if err != nil {
		return
	}
	dir := filepath.Join(o.Volume.PGData(id), "pg_wal")
	var waiting []string
	takers := &o.takers
	takers.ArchiveError = ""
	if health := o.Status().Archive; health != nil {
		waiting, _ = archive.Ready(dir) // none is as good as not known
		takers.ArchiveError = health.Error
	}
	takers.WAL, takers.Unarchived = space.WAL(dir, waiting)
	if state == space.Enough {
		takers.SlotHolder, takers.SlotBytes = "", 0
		return
	}
	_ = o.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var slot string
		err := conn.QueryRow(ctx, spaceQuestion).Scan(&slot, &takers.SlotBytes)
		takers.SlotHolder = o.holderOf(slot)
		if errors.Is(err, pgx.ErrNoRows) {
			takers.SlotHolder, takers.SlotBytes, err = "", 0, nil
		}
		return err
	})
}

// holderOf a slot is an instance, or somebody whom only the slot names.
func (o *occupancy) holderOf(slot string) string {
	peers := electorate(o.latest.config()).Peers
	if i := slices.IndexFunc(peers, func(peer string) bool { return replicate.SlotName(peer) == slot }); i >= 0 {
		return peers[i]
	}
	return "the replication slot " + slot
}

func (o *occupancy) publish(state space.State, changed bool) {
	takers := o.takers
	seen := &agentapi.VolumeStatus{
		Bytes: takers.Usage.Total, UsedBytes: takers.Usage.Used(), WALBytes: takers.WAL,
		State: map[space.State]string{space.AlmostFull: agentapi.VolumeAlmostFull, space.Full: agentapi.VolumeFull}[state],
	}
	seen.FullAt = o.filling.FullAt(takers.Usage)
	if state != space.Enough {
		seen.Cause = takers.Cause()
	}
	o.set(func(status *agentapi.Status) { status.Volume = seen })
	switch {
	case changed && state == space.Enough:
		o.Log.Info("the volume has space again")
	case changed:
		o.Log.Warn("the volume is filling", "state", seen.State, "cause", seen.Cause)
	}
}

// withRoom does again what has found no space on the volume, once a part of the reserve is given up for it.
func (i *instance) withRoom(do func() error) error {
	err := do()
	if errors.Is(err, syscall.ENOSPC) && i.lend() {
		return do()
	}
	return err
}

// lend makes room for what the agent itself writes, such as the configuration of a running server. The rest of the reserve stays: whoever writes would
// take it at once, and nothing would be left to recover with.
func (i *instance) lend() bool {
	volume := space.Volume(i.Volume)
	usage, err := volume.Measure()
	if err != nil {
		return false
	}
	lent, err := volume.Lend(usage)
	if err != nil {
		i.Log.Error("no part of the reserve can be released", "error", err)
	}
	return lent
}

// giveReserve gives PostgreSQL the reserve when it is to start, or to stop, with hardly any space.
func (d *diskSpace) giveReserve() {
	usage, err := d.volume().Measure()
	if err != nil || !usage.Tight() || usage.Reserve == 0 {
		return
	}
	d.state.Store(int32(space.Full)) // so that it comes up for readers only
	if err := d.volume().Release(); err != nil {
		d.Log.Error("the reserve can't be released", "error", err)
		return
	}
	d.Log.Warn("released the reserve, as the volume is full", "bytes", usage.Reserve)
}
