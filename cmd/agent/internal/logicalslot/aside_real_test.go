//go:build postgres

package logicalslot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"howdah.dev/howdah/test/testkit/pgtest"
)

const allSlots = "SELECT coalesce(string_agg(slot_name, ' ' ORDER BY slot_name), '') FROM pg_replication_slots"

// mine creates a slot that the cluster doesn't declare.
func (b *bed) mine() {
	b.t.Helper()
	b.SQLIn("shop", "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')")
}

// comeBack has the data run, give way to other data, and run again.
func (b *bed) comeBack() {
	b.t.Helper()
	b.told(1, "g0")
	b.resume()
	b.told(3, "g0")
	b.resume()
}

func (b *bed) setAside(want string) {
	b.t.Helper()
	names, err := SetAside(b.t.Context(), b.keeper.Server, b.keeper.Major, slog.New(slog.DiscardHandler))
	if got := strings.Join(names, " "); err != nil || got != want {
		b.t.Errorf("%q are set aside, want %q: %v", got, want, err)
	}
}

// ahead has a client connect that has confirmed more than the server has ever written, and returns the error that it gets, or ends it.
func (b *bed) ahead(slot string) error {
	b.t.Helper()
	conn, err := pgconn.Connect(b.t.Context(), fmt.Sprintf("host=%s user=postgres dbname=shop replication=database", b.SocketDir))
	if err != nil {
		b.t.Fatal(err)
	}
	defer b.awaitIdle()
	defer conn.Close(context.Background())
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION SLOT " + slot + " LOGICAL FF/0 (proto_version '1', publication_names 'none')"})
	if err := conn.Frontend().Flush(); err != nil {
		b.t.Fatal(err)
	}
	for {
		message, err := conn.ReceiveMessage(b.t.Context())
		if err != nil {
			return err
		}
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyBothResponse:
			return nil
		}
	}
}

// TestNoClientContinuesByItselfOnDataThatCameBack: PostgreSQL lets a client begin beyond all that it has, and skips everything up to there.
func TestNoClientContinuesByItselfOnDataThatCameBack(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.told(1, "g0")
		b.expect("Ready", cdc())
		b.mine()
		b.setAside("")
		b.told(3, "g0")
		b.resume()
		if err := b.ahead("mine"); err != nil {
			t.Errorf("PostgreSQL refuses such a client by itself: %v", err)
		}
		b.setAside("cdc mine")
		b.setAside("")
		b.says(allSlots, "howdah_aside_3_cdc howdah_aside_3_mine")
		for _, slot := range []string{"cdc", "mine"} {
			fault := &pgconn.PgError{}
			if err := b.ahead(slot); !errors.As(err, &fault) || fault.Code != "42704" {
				t.Errorf("%s: %v", slot, err)
			}
		}
		if got := b.expect("Lost", cdc()); !strings.Contains(got, "set aside as howdah_aside_3_cdc") {
			t.Error(got)
		}
		b.SQLIn("shop", "SELECT pg_copy_logical_replication_slot('howdah_aside_3_mine', 'mine')") // a person knows better
		b.SQL("SELECT pg_drop_replication_slot('howdah_aside_3_mine'); UPDATE howdah_slots.slots SET stage = 'created' WHERE name = 'cdc'")
		b.expect("Ready", cdc())
		b.expect("Ready", cdc())
		b.setAside("")
		b.says(allSlots, "cdc mine")
		b.SQL("UPDATE howdah_slots.aside SET at = now() - interval '1 hour'")
		b.setAside("")
		b.says("SELECT count(*) FROM howdah_slots.aside", "0")
	})
}

func TestASlotIsSetAsideWhileItsClientReads(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.mine()
		b.comeBack()
		before := b.SQL("SELECT confirmed_flush_lsn FROM pg_replication_slots")
		defer b.read("mine")()
		b.setAside("mine")
		b.says("SELECT string_agg(slot_name || ' ' || confirmed_flush_lsn, ' ') FROM pg_replication_slots", "howdah_aside_3_mine "+before)
	})
}

func TestASlotThatWasHalfSetAsideIsSetAside(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.mine()
		b.comeBack()
		b.SQLIn("shop", "SELECT pg_copy_logical_replication_slot('mine', 'howdah_aside_3_mine')") // and then it was killed
		b.setAside("mine")
		b.says(allSlots, "howdah_aside_3_mine")
		b.mine() // its client has begun anew
		b.setAside("")
		b.told(5, "g0")
		b.resume()
		b.setAside("mine")
		b.says(allSlots, "howdah_aside_3_mine howdah_aside_5_mine")
	})
}

func TestASlotThatNobodyCanReadIsNotSetAside(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.mine()
		b.SQL("SELECT pg_create_physical_replication_slot('shop_1')")
		b.SQL("ALTER DATABASE shop ALLOW_CONNECTIONS false")
		b.comeBack()
		b.setAside("")
		b.says(allSlots, "mine shop_1")
	})
}

func TestASlotForWhichThereIsNoRoomIsTriedAgain(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.mine()
		b.comeBack()
		b.SQL("SELECT count(pg_create_physical_replication_slot('p' || i)) FROM generate_series(2, current_setting('max_replication_slots')::int) i")
		names, err := SetAside(t.Context(), b.keeper.Server, b.keeper.Major, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "slot mine: all replication slots are in use") || len(names) > 0 {
			t.Errorf("%q, %v", names, err)
		}
		b.SQL("SELECT pg_drop_replication_slot('p2')")
		b.setAside("mine")
	})
}

// TestASlotThatSurvivesFailoversDoesSoWhenItIsSetAside: a copy of a slot doesn't by itself.
func TestASlotThatSurvivesFailoversDoesSoWhenItIsSetAside(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		if pg.Major < failoverMajor {
			t.Skip("slots don't survive a failover before 17")
		}
		b := newBed(t, pg)
		b.told(1, "g0")
		b.expect("Ready", cdc())
		b.told(3, "g0")
		b.resume()
		b.setAside("cdc")
		b.says("SELECT slot_name || ' ' || failover FROM pg_replication_slots", "howdah_aside_3_cdc true")
		b.SQL("UPDATE howdah_slots.slots SET stage = 'created' WHERE name = 'cdc'")
		b.expect("Ready", cdc())
		b.says("SELECT slot_name || ' ' || failover FROM pg_replication_slots", "cdc true")
	})
}

func TestWhatWasSetAsideGoesWithItsSlot(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		for name, end := range map[string]func(*bed){
			"it is declared absent": func(b *bed) { b.expect("Absent", gone) },
			"it retains too much": func(b *bed) {
				limited := cdc()
				limited.MaxRetainedBytes = 1
				b.expect("Lost", limited)
				b.says(allSlots, "howdah_aside_3_cdc")
				b.SQL("CREATE TABLE filler AS SELECT generate_series(1, 1000)")
				b.now = b.now.Add(IdleTime - time.Second)
				b.expect("Lost", limited)
				b.says(allSlots, "howdah_aside_3_cdc")
				b.now = b.now.Add(time.Second)
				b.expect("Lost", limited)
			},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBed(t, pg)
				b.told(1, "g0")
				b.expect("Ready", cdc())
				b.told(3, "g0")
				b.resume()
				b.setAside("cdc")
				end(b)
				b.says(allSlots, "")
			})
		}
	})
}
