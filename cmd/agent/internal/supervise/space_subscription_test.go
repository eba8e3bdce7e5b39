//go:build postgres

package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// newSubscriber makes a pod that has a small volume and subscribes to the table of another one.
func newSubscriber(t *testing.T, options string) (publisher, subscriber *pod) {
	t.Helper()
	pgtest.OneVersionIsEnough(t)
	subscriber = smallPod(t)
	publisher = newPod(t)
	publisher.configure(publisher.with(map[string]string{"wal_level": "logical", "max_wal_size": "1GB"}))
	publisher.run()
	subscriber.run()
	subscriber.awaitReserve()
	for _, p := range []*pod{publisher, subscriber} {
		p.sql("CREATE TABLE public.rows (n int PRIMARY KEY, note text)")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the subscriber:\n%s", subscriber.log.String())
		}
	})
	publisher.sql("CREATE PUBLICATION cdc FOR TABLE public.rows")
	subscriber.sql(fmt.Sprintf("CREATE SUBSCRIPTION cdc CONNECTION 'host=%s port=%d user=postgres dbname=postgres' PUBLICATION cdc WITH (%s)",
		publisher.SocketDir, publisher.Port, options))
	publisher.insert(1)
	subscriber.awaitSQL(appliedRows, "1")
	return publisher, subscriber
}

const (
	appliedRows  = "SELECT count(*)::text FROM public.rows"
	appliedNotes = "SELECT coalesce(md5(string_agg(note, '' ORDER BY n)), '') FROM public.rows"
	applies      = "SELECT count(*)::text FROM pg_stat_activity WHERE backend_type ~ '^logical replication .*worker$'"
)

// Its worker asks for no leave to write: it inserts without a statement that could be refused. An error of its own would disable the subscription
// until a person enables it again.
func TestASubscriptionOfAFullVolumeAppliesNothingUntilThereIsSpace(t *testing.T) {
	publisher, subscriber := newSubscriber(t, "disable_on_error = true")
	drain := subscriber.fillVolume(28 << 20)
	subscriber.awaitVolume(agentapi.VolumeFull)
	subscriber.await("let clients only read", func() bool { return strings.Contains(subscriber.log.String(), `"readOnly":true`) })
	for range 20 { // its worker may be ending
		if subscriber.sql(applies) == "0" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	publisher.insert(2, 3)
	for range 20 {
		if got := subscriber.sql(appliedRows); got != "1" {
			t.Fatalf("%s rows are there, though the volume is full", got)
		}
		time.Sleep(500 * time.Millisecond)
	}
	drain()
	subscriber.awaitVolume("")
	subscriber.awaitSQL(appliedRows, "3")
}

// What waits at the publisher takes more space than the volume has room for, and begins to come as soon as the server accepts connections.
func TestAServerThatComesBackOnAFullVolumeIsNotFilledByItsSubscriptions(t *testing.T) {
	publisher, subscriber := newSubscriber(t, "streaming = off")
	update := func(times int) {
		for range times { // a transaction each, so that none is undone with another
			publisher.sql("UPDATE public.rows SET note = repeat(md5(random()::text), 30)")
		}
	}
	publisher.sql("INSERT INTO public.rows SELECT g FROM generate_series(2, 2000) g")
	update(4)
	subscriber.awaitSQL(appliedNotes, publisher.sql(appliedNotes))
	drain := subscriber.fillVolume(1 << 20)
	subscriber.await("let clients only read", func() bool { return strings.Contains(subscriber.log.String(), `"readOnly":true`) })
	update(40)
	before, err := subscriber.readPID()
	if err != nil {
		t.Fatal(err)
	}
	_ = subscriber.agent.server.With(t.Context(), "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1000000)) FROM generate_series(1, 200)")
		return err
	})
	subscriber.await("come back", func() bool { return subscriber.cameBack(before) })
	after, said := subscriber.pid(), len(subscriber.log.String())
	for range 40 {
		time.Sleep(250 * time.Millisecond)
		if now, err := subscriber.readPID(); now != after || subscriber.agent.Ready(t.Context()) != nil {
			t.Fatalf("it didn't stay up: %d is %d, %v", after, now, err)
		}
	}
	if strings.Contains(subscriber.log.String()[said:], "No space left on device") {
		t.Error("the volume was filled again")
	}
	drain()
	subscriber.awaitVolume("")
	subscriber.awaitSQL(appliedNotes, publisher.sql(appliedNotes))
}
