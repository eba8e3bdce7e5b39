package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/postgres"
)

// slotPrefix tells our slots from those of others, which are left alone.
const slotPrefix = "howdah_"

// SlotName is the name of the slot that keeps WAL for a pod. Names of pods have no underscore, so no two have the same.
func SlotName(pod string) string { return slotPrefix + strings.ReplaceAll(pod, "-", "_") }

// step is how far a slot moves on a replica at least; WAL is removed by segments.
const step = 1 << 20

type slot struct {
	Name    string
	Active  bool
	Restart postgres.LSN // zero: it keeps nothing
	Lost    bool         // what it should keep is gone
}

// KeepSlots sees to it that this server, primary or replica, keeps the WAL that each of the peers may still need: all
// other instances of the cluster. Slots of pods that are no peers are dropped unless they are in use. It returns the
// positions before which no peer needs WAL, by pod.
//
// Nobody uses a slot on a replica, so it is moved on here: to where the primary says that the peer is, which for the
// primary itself is all that it has written, but not beyond the last restartpoint. From there this server would be the
// source of a rewind after its promotion. Peers that positions doesn't name stay where they are.
func KeepSlots(ctx context.Context, conn *pgx.Conn, peers []string, positions map[string]uint64) (map[string]uint64, error) {
	slots, redo, err := readSlots(ctx, conn)
	if err != nil {
		return nil, err
	}
	kept := map[string]uint64{}
	var errs []error
	for _, peer := range peers {
		at := slices.IndexFunc(slots, func(s slot) bool { return s.Name == SlotName(peer) })
		s := slot{Name: SlotName(peer)}
		if at >= 0 {
			s = slots[at]
		}
		lsn, err := keepSlot(ctx, conn, s, at >= 0, min(postgres.LSN(positions[peer]), redo))
		errs = append(errs, err)
		if lsn > 0 {
			kept[peer] = uint64(lsn)
		}
	}
	for _, s := range slots {
		isPeer := slices.ContainsFunc(peers, func(peer string) bool { return s.Name == SlotName(peer) })
		if !isPeer && !s.Active {
			errs = append(errs, drop(ctx, conn, s.Name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return kept, fmt.Errorf("replication slots: %w", local.Plain(err))
	}
	return kept, nil
}

// keepSlot makes one slot, again if it is lost, and moves it up to a position; zero leaves it where it is.
func keepSlot(ctx context.Context, conn *pgx.Conn, s slot, exists bool, to postgres.LSN) (postgres.LSN, error) {
	if exists && (s.Lost || s.Restart == 0) && !s.Active {
		if err := drop(ctx, conn, s.Name); err != nil {
			return 0, err
		}
		exists = false
	}
	if !exists {
		_, err := conn.Exec(ctx, "SELECT pg_create_physical_replication_slot($1, true)", s.Name)
		return 0, err // where it is will show at the next look
	}
	if s.Active || s.Restart.Add(step) > to {
		return s.Restart, nil
	}
	_, err := conn.Exec(ctx, "SELECT pg_replication_slot_advance($1, $2::text::pg_lsn)", s.Name, to.String())
	return s.Restart, err
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name)
	return err
}

// readSlots reads our slots, and on a replica where its last restartpoint begins; 0 on a primary.
func readSlots(ctx context.Context, conn *pgx.Conn) ([]slot, postgres.LSN, error) {
	var text string
	err := conn.QueryRow(ctx, `SELECT CASE WHEN pg_is_in_recovery() THEN (SELECT redo_lsn FROM pg_control_checkpoint())::text ELSE '0/0' END`).Scan(&text)
	if err != nil {
		return nil, 0, err
	}
	redo, err := postgres.ParseLSN(text)
	if err != nil {
		return nil, 0, err
	}
	rows, err := conn.Query(ctx, `SELECT slot_name::text, active, coalesce(restart_lsn, '0/0')::text, coalesce(wal_status = 'lost', false)
		FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary AND starts_with(slot_name::text, $1)`, slotPrefix)
	if err != nil {
		return nil, 0, err
	}
	slots, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s slot, err error) {
		var restart string
		if err := row.Scan(&s.Name, &s.Active, &restart, &s.Lost); err != nil {
			return s, err
		}
		s.Restart, err = postgres.ParseLSN(restart)
		return s, err
	})
	return slots, redo, err
}
