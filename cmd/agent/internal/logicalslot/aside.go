package logicalslot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
)

// The logical slots of data that came back are set aside: each is copied under another name and dropped under its own. A client that may be ahead would
// otherwise connect by itself, and the server would skip silently what the client seems to have. So it is refused, and nothing is given up: a person who
// knows that the client isn't ahead brings the slot back.
//
// That this is to be done is recorded with the adoption, and slots are dropped only when their copies are on disk, so it may be repeated.

const (
	// AsidePrefix is before the number of the adoption and the name of a slot that was set aside.
	AsidePrefix = "howdah_aside_"
	// maxSlotName is how long a name may be.
	maxSlotName = 63
	// settleTime is for how long a replica may still have a copy of a slot that its primary has dropped.
	settleTime = "5 minutes"
	// dropTries is how often a slot is taken from its client, which may be back at once.
	dropTries = 20
)

// asideName is the name under which a slot is set aside.
func asideName(number int64, name string) string {
	aside := AsidePrefix + strconv.FormatInt(number, 10) + "_" + name
	if len(aside) <= maxSlotName {
		return aside
	}
	sum := sha256.Sum256([]byte(name))
	return aside[:maxSlotName-9] + "_" + hex.EncodeToString(sum[:4])
}

// asideNumber is the number of the adoption for which a slot of that name was set aside under this one; 0: it wasn't.
func asideNumber(aside, name string) int64 {
	rest, is := strings.CutPrefix(aside, AsidePrefix)
	digits, _, _ := strings.Cut(rest, "_")
	number, err := strconv.ParseInt(digits, 10, 64)
	if !is || err != nil || asideName(number, name) != aside {
		return 0
	}
	return number
}

// asides are the slots under which that of a name was set aside, the last one first.
func asides(slots map[string]slot, name string) (found []slot) {
	for _, s := range slots {
		if asideNumber(s.Name, name) > 0 {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b slot) int { return cmp.Compare(asideNumber(b.Name, name), asideNumber(a.Name, name)) })
	return found
}

// dueAside are the slots that are to be set aside for an adoption. A client can't read from the others: those that are lost, unfinished, or in databases
// that accept no connections. Once it is done, only copies of other instances' slots are, which an instance had kept that has taken over since.
const dueAside = `SELECT slot_name::text, s.database::text, %s FROM pg_catalog.pg_replication_slots s JOIN pg_catalog.pg_database d ON d.oid = s.datoid
	WHERE slot_type = 'logical' AND NOT temporary AND confirmed_flush_lsn IS NOT NULL AND wal_status IS DISTINCT FROM 'lost'
	AND d.datallowconn AND d.datconnlimit <> -2 AND NOT starts_with(slot_name::text, $1) AND (NOT $2 OR %s) ORDER BY 1`

// SetAside sets aside the logical slots of data that came back, where that is still to be done, and returns their names. It may be repeated. An error is of
// a slot that is still there.
func SetAside(ctx context.Context, server local.Server, major int, log *slog.Logger) (names []string, err error) {
	err = server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		if whole, err := inspectRecord(ctx, conn); err != nil || !whole {
			return err
		}
		rows, err := conn.Query(ctx, "SELECT number, done FROM "+schema+".aside ORDER BY number")
		if err != nil {
			return err
		}
		due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[asideWork])
		if err != nil {
			return err
		}
		for _, work := range due {
			work := asideWorker{asideWork: work, conn: conn, server: server, major: major, log: log}
			moved, err := work.run(ctx)
			names = append(names, moved...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return names, fmt.Errorf("set aside the logical slots of data that came back: %w", local.Plain(err))
	}
	return names, nil
}

// asideWork is what there is to do for one adoption.
type asideWork struct {
	Number int64
	Done   bool // but for what replicas may have kept
}

type asideWorker struct {
	asideWork
	conn   *pgx.Conn // in database postgres
	server local.Server
	major  int
	log    *slog.Logger
}

func (w asideWorker) run(ctx context.Context) (names []string, err error) {
	failover, synced := "false", "false"
	if w.major >= failoverMajor {
		failover, synced = "failover", "synced"
	}
	rows, err := w.conn.Query(ctx, fmt.Sprintf(dueAside, failover, synced), AsidePrefix, w.Done)
	if err != nil {
		return nil, err
	}
	type due struct {
		Name, Database string
		Failover       bool
	}
	slots, err := pgx.CollectRows(rows, pgx.RowToStructByPos[due])
	if err != nil {
		return nil, err
	}
	for _, s := range slots {
		if err := w.move(ctx, s.Name, s.Database, s.Failover); err != nil {
			return names, fmt.Errorf("slot %s: %w", s.Name, local.Plain(err))
		}
		names = append(names, s.Name)
	}
	return names, beginLocal(ctx, w.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM "+schema+".aside WHERE number = $1 AND done AND at < pg_catalog.now() - interval '"+settleTime+"'", w.Number); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE "+schema+".aside SET done = true, at = pg_catalog.now() WHERE number = $1 AND NOT done", w.Number)
		return err
	})
}

// move copies a slot while its client hasn't confirmed anything to this server yet, and drops it.
func (w asideWorker) move(ctx context.Context, name, database string, failover bool) error {
	return w.server.With(ctx, database, func(conn *pgx.Conn) error {
		aside := asideName(w.Number, name)
		if err := copySlot(ctx, conn, name, aside); err != nil {
			return err
		}
		if failover {
			if err := keepThroughFailover(ctx, w.server, database, aside); err != nil {
				w.log.Warn("a slot that was set aside doesn't survive a failover", "slot", aside, "error", err)
			}
		}
		return takeAway(ctx, conn, name)
	})
}

// copySlot does nothing where the copy is there.
func copySlot(ctx context.Context, conn *pgx.Conn, from, to string) error {
	_, err := conn.Exec(ctx, `SELECT pg_catalog.pg_copy_logical_replication_slot($1, $2)
		WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots WHERE slot_name = $2)`, from, to)
	return err
}

// takeAway drops a slot, and ends whoever reads it.
func takeAway(ctx context.Context, conn *pgx.Conn, name string) (err error) {
	for range dropTries {
		_, err = conn.Exec(ctx, "SELECT pg_catalog.pg_terminate_backend(active_pid, 1000) FROM pg_catalog.pg_replication_slots WHERE slot_name = $1 AND active_pid IS NOT NULL", name)
		if err != nil {
			return err
		}
		if err = drop(ctx, conn, name); !hasCode(err, "55006") { // object_in_use
			break
		}
	}
	if hasCode(err, "42704") { // undefined_object: its client has dropped it
		return nil
	}
	return err
}

func hasCode(err error, code string) bool {
	fault := &pgconn.PgError{}
	return errors.As(err, &fault) && fault.Code == code
}

// keepThroughFailover has replicas keep a copy of a slot, which a copy doesn't take over from its original. Only a replication connection changes that.
func keepThroughFailover(ctx context.Context, server local.Server, database, name string) error {
	conn, err := server.ConnectReplication(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "ALTER_REPLICATION_SLOT "+pgx.Identifier{name}.Sanitize()+" (FAILOVER true)").ReadAll()
	return err
}

// bringBack makes a slot that was set aside what it was: a person has said so in the record.
func (k *Keeper) bringBack(ctx context.Context, status agentapi.SlotStatus, wanted agentapi.ReplicationSlot, aside slot) (agentapi.SlotStatus, error) {
	status.State = agentapi.SlotLost
	err := k.Server.With(ctx, aside.Database, func(conn *pgx.Conn) error {
		if err := copySlot(ctx, conn, aside.Name, wanted.Name); err != nil {
			return err
		}
		if k.Major >= failoverMajor && wanted.Failover {
			if err := keepThroughFailover(ctx, k.Server, aside.Database, wanted.Name); err != nil {
				return err
			}
		}
		return drop(ctx, conn, aside.Name)
	})
	if err == nil {
		status.State = agentapi.SlotReady
	}
	return status, err
}

// limitLost drops the slots of a declared one that is lost, when they hold back more than that may, after as long a time as that.
func (k *Keeper) limitLost(ctx context.Context, conn *pgx.Conn, held []slot, limit int64) error {
	for _, s := range held {
		if limit > 0 && s.Retained > limit && !s.Active && !k.Now().Before(k.idle[s.Name].Add(IdleTime)) {
			if err := drop(ctx, conn, s.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// setAsideMessage says how a lost slot that was set aside comes back; empty: it wasn't.
func setAsideMessage(held []slot, name string) string {
	if len(held) == 0 {
		return ""
	}
	return fmt.Sprintf("; it was set aside as %s, so that the client can't continue by mistake: if you know that the client has not read from other data meanwhile, "+
		"UPDATE %s.slots SET stage = '%s' WHERE name = '%s' in database postgres brings it back", held[0].Name, schema, created, name)
}
