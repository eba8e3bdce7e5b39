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
	"howdah.dev/howdah/cmd/agent/internal/generation"
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

// diskSpace is that of the volumes. Any goroutine may use it; what is only found out by watch is in occupancy.
type diskSpace struct {
	*instance
	latest *latest
	rooms  []*room
}

// room is a volume. PostgreSQL can write only while there is space on each of them.
type room struct {
	space.Volume
	holds space.Content
	state atomic.Int32 // space.State
}

func newDiskSpace(i *instance, latest *latest) *diskSpace {
	d := &diskSpace{instance: i, latest: latest}
	volumes := i.volumes()
	for at, volume := range volumes {
		holds := space.Everything
		switch {
		case len(volumes) > 1 && at == 0:
			holds = space.Data
		case at > 0:
			holds = space.WALOnly
		}
		d.rooms = append(d.rooms, &room{Volume: volume, holds: holds})
	}
	return d
}

// volumes of the instance: the data volume first, then the WAL volume, if there is one.
func (i *instance) volumes() []space.Volume {
	all := []space.Volume{space.Volume(i.Volume)}
	root, has, err := generation.WAL(i.Volume).Root()
	if err != nil {
		i.Log.Error("the WAL volume can't be inspected", "error", err)
	}
	if has {
		all = append(all, space.Volume(root))
	}
	return all
}

// walVolumeBytes is the size of the WAL volume; 0: there is none.
func (i *instance) walVolumeBytes() int64 {
	if volumes := i.volumes(); len(volumes) > 1 {
		return volumeBytes(string(volumes[1]))
	}
	return 0
}

// occupancy is what watch has found out. Only its goroutine uses it.
type occupancy struct {
	*diskSpace
	found  []*found // of each room
	looked time.Time
}

// found is what watch has found out of a room.
type found struct {
	*room
	takers  space.Takers
	told    bool          // that no space can be reserved
	filling space.Filling // how fast the volume fills
}

// worst is the state of the volume that has least.
func (d *diskSpace) worst() space.State {
	worst := space.Enough
	for _, r := range d.rooms {
		worst = max(worst, space.State(r.state.Load()))
	}
	return worst
}

// full says that a volume is full, so that clients may only read.
func (d *diskSpace) full() bool { return d.worst() == space.Full }

// scarce says that there is little space.
func (d *diskSpace) scarce() bool { return d.worst() != space.Enough }

// watch looks how full the volumes are, holds a reserve back while there is room, and publishes what it sees, until ctx
// ends.
func (d *diskSpace) watch(ctx context.Context) {
	tick := time.NewTicker(spaceTick)
	defer tick.Stop()
	go holdSubscriptions(ctx, d)
	o := &occupancy{diskSpace: d}
	for _, r := range d.rooms {
		o.found = append(o.found, &found{room: r, takers: space.Takers{Holds: r.holds}})
	}
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
	due := time.Since(o.looked) >= takersPause
	if due {
		o.looked = time.Now()
		o.tellCopies() // a clone leaves one, and it is removed later
	}
	for _, f := range o.found {
		o.lookAt(ctx, f, due)
	}
}

// lookAt looks at a volume, and at what takes its space if that is due.
func (o *occupancy) lookAt(ctx context.Context, f *found, due bool) {
	usage, err := f.Measure()
	if err != nil {
		o.Log.Warn("the space on the volume is not known", "volume", f.Volume, "error", err)
		return
	}
	before := space.State(f.state.Load())
	state := usage.Next(before)
	f.state.Store(int32(state))
	if state != before || due {
		o.lookForTakers(ctx, f, state)
		f.filling.Add(usage, time.Now())
	}
	f.takers.Usage = usage
	o.publish(f, state, state != before)
	if held, err := f.Hold(usage); held {
		o.Log.Info("space is reserved for recovery", "volume", f.Volume)
	} else if err != nil && !f.told {
		f.told = true
		o.Log.Warn("no space can be reserved for recovery", "volume", f.Volume, "error", err)
	}
}

// lookForTakers finds out what WAL takes the space; of a server that doesn't respond its slots stay as they were.
func (o *occupancy) lookForTakers(ctx context.Context, f *found, state space.State) {
	id, err := o.Volume.Current()
	if err != nil || f.holds == space.Data {
		return
	}
	dir := filepath.Join(o.Volume.PGData(id), "pg_wal")
	var waiting []string
	takers := &f.takers
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

func (o *occupancy) publish(f *found, state space.State, changed bool) {
	takers := f.takers
	seen := &agentapi.VolumeStatus{
		Bytes: takers.Usage.Total, UsedBytes: takers.Usage.Used(), WALBytes: takers.WAL,
		State: map[space.State]string{space.AlmostFull: agentapi.VolumeAlmostFull, space.Full: agentapi.VolumeFull}[state],
	}
	seen.FullAt = f.filling.FullAt(takers.Usage)
	if state != space.Enough {
		seen.Cause = takers.Cause()
	}
	o.set(func(status *agentapi.Status) {
		if f.holds == space.WALOnly {
			status.WALVolume = seen
		} else {
			status.Volume = seen
		}
	})
	switch {
	case changed && state == space.Enough:
		o.Log.Info("the volume has space again", "volume", f.Volume)
	case changed:
		o.Log.Warn("the volume is filling", "volume", f.Volume, "state", seen.State, "cause", seen.Cause)
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
func (i *instance) lend() (any bool) {
	for _, volume := range i.volumes() {
		usage, err := volume.Measure()
		if err != nil || usage.Free >= space.Lent {
			continue
		}
		lent, err := volume.Lend(usage)
		if err != nil {
			i.Log.Error("no part of the reserve can be released", "error", err)
		}
		any = any || lent
	}
	return any
}

// giveReserve gives PostgreSQL the reserve when it is to start, or to stop, with hardly any space.
func (d *diskSpace) giveReserve() {
	for _, r := range d.rooms {
		usage, err := r.Measure()
		if err != nil || !usage.Tight() || usage.Reserve == 0 {
			continue
		}
		r.state.Store(int32(space.Full)) // so that it comes up for readers only
		if err := r.Release(); err != nil {
			d.Log.Error("the reserve can't be released", "volume", r.Volume, "error", err)
			continue
		}
		d.Log.Warn("released the reserve, as the volume is full", "volume", r.Volume, "bytes", usage.Reserve)
	}
}
