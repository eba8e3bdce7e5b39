//go:build postgres

package logicalslot

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// bed is a server with logical decoding and a database shop.
type bed struct {
	*pgtest.Server
	t      *testing.T
	keeper *Keeper
	now    time.Time
}

func newBed(t *testing.T, pg pgtest.Installation) *bed {
	t.Helper()
	b := &bed{Server: pgtest.Start(t, pgtest.Options{Major: pg.Major, HBA: "local all postgres trust\n", Params: map[string]string{"wal_level": "logical"}}), t: t, now: time.Now()}
	b.keeper = &Keeper{Server: local.Server{SocketDir: b.SocketDir, Port: 5432}, Major: pg.Major, Now: func() time.Time { return b.now }, Wait: 200 * time.Millisecond}
	b.SQL("CREATE DATABASE shop")
	return b
}

// keep returns the state of each slot and the messages.
func (b *bed) keep(declared ...agentapi.ReplicationSlot) (states, messages string) {
	b.t.Helper()
	found, err := b.keeper.Keep(b.t.Context(), declared)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range found {
		states += " " + string(s.State)
		messages += s.Problem()
	}
	return strings.TrimSpace(states), messages
}

func (b *bed) expect(want string, declared ...agentapi.ReplicationSlot) string {
	b.t.Helper()
	got, message := b.keep(declared...)
	if got != want {
		b.t.Errorf("it is %s, want %s: %s", got, want, message)
	}
	return message
}

func (b *bed) says(statement, want string) {
	b.t.Helper()
	if got := b.SQL(statement); got != want {
		b.t.Errorf("%s gives %q, want %q", statement, got, want)
	}
}

// read has a client read the slot, until the returned function ends it.
func (b *bed) read(slot string) (end func()) {
	b.t.Helper()
	conn, err := pgconn.Connect(b.t.Context(), fmt.Sprintf("host=%s user=postgres dbname=shop replication=database", b.SocketDir))
	if err != nil {
		b.t.Fatal(err)
	}
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION SLOT " + slot + " LOGICAL 0/0 (proto_version '1', publication_names 'none')"})
	if err := conn.Frontend().Flush(); err != nil {
		b.t.Fatal(err)
	}
	for {
		message, err := conn.ReceiveMessage(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		if _, streams := message.(*pgproto3.CopyBothResponse); streams {
			return func() {
				_ = conn.Close(context.Background())
				b.awaitIdle()
			}
		}
	}
}

// awaitIdle waits until the server has noticed that a client has left.
func (b *bed) awaitIdle() {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for b.SQL("SELECT count(*) FROM pg_replication_slots WHERE active") != "0" {
		select {
		case <-tick.C:
		case <-b.t.Context().Done():
			b.t.Fatal("a client is still connected")
		}
	}
}

func cdc() agentapi.ReplicationSlot {
	return agentapi.ReplicationSlot{Name: "cdc", Database: "shop", Plugin: "pgoutput", Failover: true}
}

var gone = agentapi.ReplicationSlot{Name: "cdc", Absent: true}

const slots = "SELECT string_agg(slot_name || ' ' || database || ' ' || plugin, ',') FROM pg_replication_slots"

func TestADeclaredSlotIsCreatedOnceAndNotAgainWithoutAPerson(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		for range 2 {
			b.expect("Ready", cdc())
			b.says(slots, "cdc shop pgoutput")
		}
		if pg.Major >= failoverMajor {
			b.says("SELECT failover FROM pg_replication_slots", "t")
		}
		b.SQL("SELECT pg_drop_replication_slot('cdc')")
		for range 2 {
			if got := b.expect("Lost", cdc()); !strings.Contains(got, "copy its tables again") {
				t.Error(got)
			}
			b.says("SELECT count(*) FROM pg_replication_slots", "0")
		}
		for range 2 {
			b.expect("Absent", gone)
		}
		b.expect("Ready", cdc())
		b.says(slots, "cdc shop pgoutput")
	})
}

// TestASlotWhoseCreationWasInterruptedIsCreatedUnlessSomebodyMayHaveReadIt: the record comes first.
func TestASlotWhoseCreationWasInterruptedIsCreatedUnlessSomebodyMayHaveReadIt(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.expect("")
		b.SQL("INSERT INTO howdah_slots.slots VALUES ('cdc', 'creating', 1)")
		b.expect("Ready", cdc())
		b.says("SELECT stage FROM howdah_slots.slots", "created")
		b.SQL("UPDATE howdah_slots.slots SET stage = 'creating', timeline = 7")
		b.expect("Ready", cdc()) // the slot is there
		b.SQL("UPDATE howdah_slots.slots SET stage = 'creating', timeline = 7; SELECT pg_drop_replication_slot('cdc')")
		b.expect("Lost", cdc()) // there was a failover, and it may have been there before
	})
}

func TestOnlySlotsThatAreOursAndUnusedAreDropped(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.SQLIn("shop", "SELECT pg_create_logical_replication_slot('cdc', 'pgoutput')")
		if pg.Major < failoverMajor {
			b.expect("Ready", cdc())
		} else if got := b.expect("Conflict", cdc()); !strings.Contains(got, "ALTER_REPLICATION_SLOT cdc (FAILOVER true)") {
			t.Error(got)
		}
		if got := b.expect("Conflict", gone); !strings.Contains(got, "did not create it") {
			t.Error(got)
		}
		b.SQL("SELECT pg_drop_replication_slot('cdc')")
		b.expect("Ready", cdc())
		b.expect("") // it isn't declared any more, and stays
		end := b.read("cdc")
		if got := b.expect("InUse", gone); !strings.Contains(got, "stop the client") {
			t.Error(got)
		}
		b.says(slots, "cdc shop pgoutput")
		end()
		b.expect("Absent", gone)
		b.says("SELECT count(*) FROM pg_replication_slots", "0")
		b.says("SELECT count(*) FROM howdah_slots.slots", "0")
	})
}

func TestASlotThatHoldsBackTooMuchIsDroppedOnlyAfterAWhileWithoutAClient(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		limited := cdc()
		limited.MaxRetainedBytes = 1
		b.expect("Ready", limited)
		b.SQL("CREATE TABLE filler AS SELECT generate_series(1, 1000)")
		if got := b.expect("OverLimit", limited); !strings.Contains(got, "is dropped at ") {
			t.Error(got)
		}
		b.now = b.now.Add(IdleTime - time.Second)
		b.expect("OverLimit", limited)
		end := b.read("cdc")
		b.now = b.now.Add(time.Hour)
		b.expect("Ready", limited)
		end()
		b.SQL("CREATE TABLE more AS SELECT generate_series(1, 1000)")
		b.expect("OverLimit", limited)
		b.says(slots, "cdc shop pgoutput")
		b.now = b.now.Add(IdleTime)
		for range 2 {
			if got := b.expect("Lost", limited); !strings.Contains(got, "was dropped") {
				t.Error(got)
			}
			b.says("SELECT count(*) FROM pg_replication_slots", "0")
		}
	})
}

func TestASlotWaitsForTransactionsAndIsCreatedAfterThem(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		conn, err := pgx.Connect(t.Context(), "host="+b.SocketDir+" dbname=shop user=postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "BEGIN; CREATE TABLE t ()"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := b.expect("Creating", cdc()); !strings.Contains(got, "idle in transaction") {
				t.Error(got)
			}
		}
		if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		b.expect("Ready", cdc())
	})
}

func TestASlotOfTheNameThatIsAnotherIsAConflict(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.SQL("SELECT pg_create_physical_replication_slot('cdc')")
		if got := b.expect("Conflict", cdc()); !strings.Contains(got, `in database "" with plugin ""`) {
			t.Error(got)
		}
		other := cdc()
		other.Name, other.Database = "other", "nowhere"
		if got := b.expect("Creating", other); !strings.Contains(got, "nowhere") {
			t.Error(got)
		}
		b.says("SELECT count(*) FROM pg_replication_slots", "1")
	})
}
