//go:build postgres

package logicalslot

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// told says which adoption the data of a bed runs under, with the slots cdc and late.
func (b *bed) told(number int64, data string) {
	b.keeper.Told = Told{Adoption: adoption("a", number, data), Slots: []string{"cdc", "late"}}
}

// TestADeclaredSlotIsLostWhenItsDataComesBack: its client may have read from the other data meanwhile, and the server would skip what the client
// seems to have.
func TestADeclaredSlotIsLostWhenItsDataComesBack(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		late := agentapi.ReplicationSlot{Name: "late", Database: "shop", Plugin: "pgoutput"}
		b.told(1, "g0")
		b.expect("Ready", cdc())
		b.told(2, "g0") // a person's decision
		b.expect("Ready", cdc())
		b.told(4, "g0")
		for range 2 {
			if got := b.expect("Lost Lost", cdc(), late); !strings.Contains(got, "its client may be ahead") {
				t.Error(got)
			}
			b.says(slots, "cdc shop pgoutput") // only a person knows whether the client has read from the other data
		}
		limited := cdc()
		limited.MaxRetainedBytes = 1
		b.SQL("CREATE TABLE filler AS SELECT generate_series(1, 1000)")
		b.now = b.now.Add(IdleTime - time.Second)
		b.expect("Lost", limited)
		b.says(slots, "cdc shop pgoutput")
		b.now = b.now.Add(time.Second)
		b.expect("Lost", limited)
		b.says("SELECT count(*) FROM pg_replication_slots", "0")
		b.expect("Absent Lost", gone, late)
		b.expect("Ready Lost", cdc(), late)
		b.told(5, "g1") // an upgrade has carried them over
		b.expect("Ready Lost", cdc(), late)
	})
}

// subscribe makes an enabled subscription, and one that is not.
func (b *bed) subscribe() {
	b.t.Helper()
	for _, name := range []string{"orders", "off"} {
		b.SQLIn("shop", "CREATE SUBSCRIPTION "+name+" CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false, slot_name = '"+name+"')")
	}
	b.SQLIn("shop", "ALTER SUBSCRIPTION orders ENABLE")
}

const (
	subscriptions = "SELECT string_agg(subname || ' ' || subenabled, ',' ORDER BY subname) FROM pg_subscription"
	marks         = "SELECT string_agg(concat_ws(' ', database, name, why, ours), ',' ORDER BY name) FROM howdah_slots.subscriptions"
)

// resume returns what became disabled.
func (b *bed) resume() string {
	b.t.Helper()
	disabled, err := Resume(b.t.Context(), b.keeper.Server, b.keeper.Told)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(disabled, ",")
}

func TestSubscriptionsAreDisabledWhenTheirDataComesBack(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.subscribe()
		b.told(1, "g0")
		for range 2 {
			if got := b.resume(); got != "" {
				t.Errorf("%s are disabled", got)
			}
		}
		b.says("SELECT count(*) FROM howdah_slots.subscriptions", "0")
		b.told(3, "g0")
		if got := b.resume(); got != "shop.orders" {
			t.Errorf("%s are disabled", got)
		}
		b.says(subscriptions, "off false,orders false")
		b.says(marks, "shop off returned f,shop orders returned t")
		b.SQLIn("shop", "ALTER SUBSCRIPTION orders ENABLE") // a person knows better
		if got := b.resume(); got != "" {
			t.Errorf("%s are disabled again", got)
		}
		b.says(subscriptions, "off false,orders true")
	})
}

// TestSeveralSessionsMayNoteTheSameAdoption: what keeps roles and what keeps slots both begin with it.
func TestSeveralSessionsMayNoteTheSameAdoption(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.subscribe()
		var all sync.WaitGroup
		for _, number := range []int64{1, 3} {
			b.told(number, "g0")
			disabled := make(chan string, 8)
			for range cap(disabled) {
				all.Go(func() { disabled <- b.resume() })
			}
			all.Wait()
			close(disabled)
			times := 0
			for got := range disabled {
				times += len(got)
			}
			if want := map[int64]int{3: len("shop.orders")}[number]; times != want {
				t.Errorf("adoption %d: %d bytes of names, want %d", number, times, want)
			}
		}
	})
}

func TestWhatAJobHasPutBackIsMarked(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.subscribe()
		back := func(want string, back Back) {
			t.Helper()
			if disabled, err := GoBack(t.Context(), b.keeper.Server, back, slog.New(slog.DiscardHandler)); err != nil || strings.Join(disabled, ",") != want {
				t.Errorf("%v are disabled, %v", disabled, err)
			}
		}
		back("", Back{Copy: true, Slots: []string{"cdc"}})
		b.says(subscriptions, "off false,orders true")
		b.says("SELECT string_agg(name || ' ' || stage, ',') FROM howdah_slots.slots", "cdc lost")
		back("shop.orders", Back{Copy: true, Subscriptions: true})
		b.says(marks, "shop off copied f,shop orders copied f")
		back("", Back{Subscriptions: true}) // of the copy itself: whose slots they are is not known
		b.says(marks, "shop off restored f,shop orders restored f")
		b.SQLIn("shop", "ALTER SUBSCRIPTION orders ENABLE") // by now, it has the slot
		back("shop.orders", Back{Subscriptions: true})
		b.says(marks, "shop off restored f,shop orders restored t")
		back("", Back{Subscriptions: true})
		b.says(marks, "shop off restored f,shop orders restored t")
		back("", Back{Subscriptions: true, Copy: true})
		b.says(marks, "shop off copied f,shop orders copied f")
	})
}

// TestARecordThatRunsCodeOfSomebodyElseIsNotWritten: a Job has the key of the repository, and the data may come from whoever can write there.
func TestARecordThatRunsCodeOfSomebodyElseIsNotWritten(t *testing.T) {
	t.Parallel()
	pgtest.OneVersionIsEnough(t)
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.subscribe()
		b.SQL("CREATE FUNCTION e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''it runs''; END'")
		b.SQL("CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION e()")
		b.told(1, "g0")
		b.resume()
		b.SQL("DROP EVENT TRIGGER e")
		b.SQL("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''it runs''; END'")
		for _, change := range []string{
			"CREATE TRIGGER t BEFORE INSERT ON howdah_slots.slots FOR EACH ROW EXECUTE FUNCTION f(); ALTER TABLE howdah_slots.slots ENABLE ALWAYS TRIGGER t",
			"ALTER TABLE howdah_slots.adoption ADD CHECK (number > 0)",
			"ALTER TABLE howdah_slots.subscriptions ADD COLUMN more int DEFAULT random()",
			"CREATE INDEX ON howdah_slots.subscriptions (lower(name))",
			"ALTER TABLE howdah_slots.slots RENAME TO s; CREATE VIEW howdah_slots.slots AS TABLE howdah_slots.s",
			"CREATE ROLE tenant; ALTER SCHEMA howdah_slots OWNER TO tenant",
		} {
			conn, err := pgx.Connect(t.Context(), b.DSN())
			if err != nil {
				t.Fatal(err)
			}
			_, err = conn.Exec(t.Context(), "BEGIN; "+change, pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := inspectRecord(t.Context(), conn); !errors.Is(err, ErrForeign) {
				t.Errorf("%s: %v", change, err)
			}
			_ = conn.Close(context.Background())
		}
		b.SQL("ALTER TABLE howdah_slots.adoption ADD CHECK (number > 0)")
		if disabled, err := GoBack(t.Context(), b.keeper.Server, Back{Subscriptions: true}, slog.New(slog.DiscardHandler)); err != nil || len(disabled) != 1 {
			t.Errorf("%v are disabled, %v", disabled, err)
		}
		b.says(subscriptions, "off false,orders false")
		if _, err := b.keeper.Keep(t.Context(), []agentapi.ReplicationSlot{cdc()}); !errors.Is(err, ErrForeign) {
			t.Error(err)
		}
	})
}
