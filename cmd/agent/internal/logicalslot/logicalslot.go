// Package logicalslot keeps the logical replication slots that a cluster declares. It never creates a slot again that a client may have
// read from: the client would miss what was written meanwhile, and not notice. It also records which slots and subscriptions must not
// continue, because the data was put back to an earlier state than that of their clients and publishers.
package logicalslot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// IdleTime is for how long no client is connected to a slot that is dropped because it holds back too much.
	IdleTime = 10 * time.Minute
	// createTime is how long the creation of a slot may take, and waitTime how long it waits for each transaction that writes.
	createTime = time.Minute
	waitTime   = 20 * time.Second
	// failoverMajor is the first version whose slots may survive a failover.
	failoverMajor = 17

	behind = "the data was restored to an earlier state, or brought back by an undo or a rollback, so its client may be ahead, and the server would skip " +
		"silently what the client seems to have: stop the client; "
	waits = "PostgreSQL creates it once all transactions have ended that began before: end those that pg_stat_activity shows as idle in transaction"
	again = "its client has to copy its tables again: for a new slot, declare it with ensure: Absent, and then with Present"
)

// Keeper keeps declared slots. Only one goroutine may use it.
type Keeper struct {
	Server local.Server
	Major  int
	Now    func() time.Time
	// Told of the data, as of the last configuration.
	Told Told
	// MayDrop says why nothing is dropped that is declared absent; nil: it may be.
	MayDrop func(context.Context, *pgx.Conn) error
	// Wait is how long the creation of a slot waits for each transaction that writes; 0: 20 s.
	Wait time.Duration

	idle map[string]time.Time // since when no client was seen at a slot
}

// slot is one that there is.
type slot struct {
	Name, Database, Plugin string
	Active, Failover       bool
	Complete               bool // its creation has ended
	Lost                   bool // what it should keep is gone
	Retained               int64
}

// look is all that was seen in one pass.
type look struct {
	conn     *pgx.Conn
	slots    map[string]slot
	entries  map[string]entry
	timeline int64
}

// Keep makes the slots as they are declared and says what became of each. It may be repeated. An error means that the server was lost.
func (k *Keeper) Keep(ctx context.Context, declared []agentapi.ReplicationSlot) (statuses []agentapi.SlotStatus, err error) {
	err = k.Server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		seen, err := k.look(ctx, conn)
		if err != nil {
			return err
		}
		for _, wanted := range declared {
			status, err := k.keep(ctx, seen, wanted)
			if ctx.Err() != nil || conn.IsClosed() {
				return errors.Join(ctx.Err(), err)
			}
			if err != nil {
				status.Message = local.Plain(err).Error()
			}
			status.Name = wanted.Name
			statuses = append(statuses, status)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("declared replication slots: %w", local.Plain(err))
	}
	return statuses, nil
}

func (k *Keeper) look(ctx context.Context, conn *pgx.Conn) (*look, error) {
	if _, err := resume(ctx, conn, k.Told); err != nil {
		return nil, err
	}
	if err := ensureRecord(ctx, conn); err != nil {
		return nil, err
	}
	entries, err := readRecord(ctx, conn)
	if err != nil {
		return nil, err
	}
	seen := &look{conn: conn, entries: entries, slots: map[string]slot{}}
	if err := conn.QueryRow(ctx, "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int8").Scan(&seen.timeline); err != nil {
		return nil, err
	}
	failover := "false"
	if k.Major >= failoverMajor {
		failover = "failover"
	}
	rows, err := conn.Query(ctx, `SELECT slot_name::text, coalesce(database::text, ''), coalesce(plugin::text, ''), active, `+failover+`,
			confirmed_flush_lsn IS NOT NULL, coalesce(wal_status = 'lost', false), coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::int8
		FROM pg_replication_slots WHERE NOT temporary`)
	if err != nil {
		return nil, err
	}
	slots, err := pgx.CollectRows(rows, pgx.RowToStructByPos[slot])
	for _, s := range slots {
		seen.slots[s.Name] = s
	}
	k.noteIdle(seen.slots)
	return seen, err
}

// noteIdle remembers since when nobody was connected to a slot. What was before the agent or the primary changed doesn't count.
func (k *Keeper) noteIdle(slots map[string]slot) {
	idle := map[string]time.Time{}
	for name, s := range slots {
		if s.Active {
			continue
		}
		idle[name] = k.Now()
		if since, known := k.idle[name]; known {
			idle[name] = since
		}
	}
	k.idle = idle
}

func (k *Keeper) keep(ctx context.Context, seen *look, wanted agentapi.ReplicationSlot) (agentapi.SlotStatus, error) {
	have, there := seen.slots[wanted.Name]
	entry, ours := seen.entries[wanted.Name]
	status := agentapi.SlotStatus{Active: have.Active, RetainedBytes: have.Retained}
	switch {
	case wanted.Absent:
		return k.keepAbsent(ctx, seen, status, wanted.Name)
	case ours && stage(entry.Stage) == lost:
		return k.keepLost(ctx, seen, status, wanted)
	case ours && stage(entry.Stage) == dropping && there:
		return k.dropOverLimit(ctx, seen, status, wanted.Name)
	case ours && stage(entry.Stage) == dropping:
		status.State, status.Message = agentapi.SlotLost, "it held back more WAL than its maxRetainedWAL while no client was connected, and was dropped; "+again
		return status, nil
	case there:
		return k.check(ctx, seen, status, wanted)
	case ours && stage(entry.Stage) == created && len(asides(seen.slots, wanted.Name)) > 0:
		return k.bringBack(ctx, status, wanted, asides(seen.slots, wanted.Name)[0])
	case ours && (stage(entry.Stage) != creating || entry.Timeline != seen.timeline):
		status.State, status.Message = agentapi.SlotLost, "it was created, and is not there any more: somebody dropped it, or a failover, a restore or an upgrade lost it; "+again
		return status, nil
	}
	return k.create(ctx, seen, status, wanted)
}

// keepLost says that the client may be ahead. A slot that was set aside stays, within its limit, as does one that somebody has created since: only a
// person knows whether the client has read elsewhere.
func (k *Keeper) keepLost(ctx context.Context, seen *look, status agentapi.SlotStatus, wanted agentapi.ReplicationSlot) (agentapi.SlotStatus, error) {
	held := asides(seen.slots, wanted.Name)
	status.State, status.Message = agentapi.SlotLost, behind+again+setAsideMessage(held, wanted.Name)
	if have, there := seen.slots[wanted.Name]; there {
		held = append(held, have)
	}
	for _, s := range held {
		status.RetainedBytes = max(status.RetainedBytes, s.Retained)
	}
	return status, k.limitLost(ctx, seen.conn, held, wanted.MaxRetainedBytes)
}

// create records a slot before it is there. Nobody can have read from one whose creation was never recorded as done, unless that
// was on another timeline.
func (k *Keeper) create(ctx context.Context, seen *look, status agentapi.SlotStatus, wanted agentapi.ReplicationSlot) (agentapi.SlotStatus, error) {
	status.State = agentapi.SlotCreating
	if err := record(ctx, seen.conn, wanted.Name, creating, seen.timeline); err != nil {
		return status, err
	}
	limited, cancel := context.WithTimeout(ctx, createTime)
	defer cancel()
	server := k.Server
	server.LockTimeout = cmp.Or(k.Wait, waitTime)
	err := server.With(limited, wanted.Database, func(conn *pgx.Conn) error {
		arguments := "$1, $2, false, false"
		if k.Major >= failoverMajor {
			arguments += fmt.Sprintf(", %t", wanted.Failover)
		}
		_, err := conn.Exec(limited, "SELECT pg_create_logical_replication_slot("+arguments+")", wanted.Name, wanted.Plugin)
		return err
	})
	switch {
	case err == nil:
		status.State = agentapi.SlotReady
		return status, record(ctx, seen.conn, wanted.Name, created, seen.timeline)
	case ctx.Err() == nil && (limited.Err() != nil || isLockTimeout(err)):
		status.Message = waits
		return status, nil
	}
	return status, err
}

func isLockTimeout(err error) bool { return hasCode(err, "55P03") } // lock_not_available

// check says whether a slot that is there is as declared.
func (k *Keeper) check(ctx context.Context, seen *look, status agentapi.SlotStatus, wanted agentapi.ReplicationSlot) (agentapi.SlotStatus, error) {
	have, entry := seen.slots[wanted.Name], seen.entries[wanted.Name]
	status.State = agentapi.SlotConflict
	switch {
	case have.Database != wanted.Database || have.Plugin != wanted.Plugin:
		status.Message = fmt.Sprintf("there is a slot of this name in database %q with plugin %q, and neither can be changed: "+
			"declare the slot under another name, or drop that one first", have.Database, have.Plugin)
		return status, nil
	case !have.Complete:
		status.State, status.Message = agentapi.SlotCreating, waits
		return status, nil
	case have.Lost:
		status.State, status.Message = agentapi.SlotLost, "PostgreSQL invalidated it, because its client did not read for too long; "+again
		return status, nil
	case k.Major >= failoverMajor && have.Failover != wanted.Failover:
		status.Message = fmt.Sprintf("its failover is %t; a replication connection changes that: ALTER_REPLICATION_SLOT %s (FAILOVER %t)", have.Failover, have.Name, wanted.Failover)
		return status, nil
	}
	status.State = agentapi.SlotReady
	if stage(entry.Stage) == creating {
		return status, record(ctx, seen.conn, wanted.Name, created, seen.timeline)
	}
	if entry.Name == "" || wanted.MaxRetainedBytes == 0 || have.Active || have.Retained <= wanted.MaxRetainedBytes {
		return status, nil
	}
	return k.overLimit(ctx, seen, status, wanted.Name)
}

// overLimit drops a slot that holds back too much, once no client has come for a while.
func (k *Keeper) overLimit(ctx context.Context, seen *look, status agentapi.SlotStatus, name string) (agentapi.SlotStatus, error) {
	status.State, status.DropAt = agentapi.SlotOverLimit, k.idle[name].Add(IdleTime)
	if k.Now().Before(status.DropAt) {
		status.Message = "it retains more WAL than its maxRetainedWAL, and is dropped at " + status.DropAt.UTC().Format(time.TimeOnly) +
			" UTC unless its client connects before: start the client, or raise maxRetainedWAL"
		return status, nil
	}
	if err := record(ctx, seen.conn, name, dropping, seen.timeline); err != nil {
		return status, err
	}
	return k.dropOverLimit(ctx, seen, status, name)
}

func (k *Keeper) dropOverLimit(ctx context.Context, seen *look, status agentapi.SlotStatus, name string) (agentapi.SlotStatus, error) {
	status.State = agentapi.SlotOverLimit
	if seen.slots[name].Active { // it came at the last moment
		status.State = agentapi.SlotReady
		return status, record(ctx, seen.conn, name, created, seen.timeline)
	}
	if err := drop(ctx, seen.conn, name); err != nil {
		return status, err
	}
	return agentapi.SlotStatus{State: agentapi.SlotLost, Message: "it held back more WAL than its maxRetainedWAL while no client was connected, and was dropped; " + again}, nil
}

// keepAbsent drops a slot that is ours and that nobody reads.
func (k *Keeper) keepAbsent(ctx context.Context, seen *look, status agentapi.SlotStatus, name string) (agentapi.SlotStatus, error) {
	have, there := seen.slots[name]
	_, ours := seen.entries[name]
	held := asides(seen.slots, name)
	switch {
	case there && !ours:
		status.State, status.Message = agentapi.SlotConflict, "Howdah did not create it, and so doesn't drop it: SELECT pg_drop_replication_slot('"+name+"') does"
		return status, nil
	case there && have.Active:
		status.State, status.Message = agentapi.SlotInUse, "a client is connected to it, so it isn't dropped: stop the client"
		return status, nil
	case there:
		held = append(held, have)
	}
	if ours && len(held) > 0 {
		status.State = agentapi.SlotInUse
		if err := k.dropAbsent(ctx, seen.conn, held); err != nil {
			return status, err
		}
	}
	status = agentapi.SlotStatus{State: agentapi.SlotAbsent}
	if !ours {
		return status, nil
	}
	return status, forget(ctx, seen.conn, name)
}

// dropAbsent drops a slot that is declared absent, with what was set aside of it.
func (k *Keeper) dropAbsent(ctx context.Context, conn *pgx.Conn, held []slot) error {
	if k.MayDrop != nil {
		if err := k.MayDrop(ctx, conn); err != nil {
			return err
		}
	}
	for _, s := range held {
		if err := drop(ctx, conn, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// drop drops a slot, which fails while a client is connected.
func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name)
	return err
}
