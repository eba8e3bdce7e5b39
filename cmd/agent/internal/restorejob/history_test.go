//go:build postgres

package restorejob

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// change is one transaction of a history, in the order in which they committed.
type change struct {
	n     int
	value string // empty: the row is deleted
	xid   int64
	at    time.Time // as the commit record has it
	lsn   string    // after the commit; empty: not known
}

// kept is a backup, and how many changes it holds at least.
type kept struct {
	manifest *backup.Manifest
	holds    int
}

// history is what happened to a database: numbered rows that come, change and go, one transaction each, with backups,
// switchovers and failovers in between.
type history struct {
	*bed
	random  *rand.Rand
	changes []change
	points  map[int]string // restore points, by the number of changes before them
	backups []kept
	events  []int // the number of changes before each backup, switchover and failover
}

func newHistory(b *bed, random *rand.Rand) *history {
	b.exec("CREATE TABLE rows (n int PRIMARY KEY, value text)")
	b.exec("CREATE TABLE log (i int)")
	return &history{bed: b, random: random, points: map[int]string{}}
}

// rowsAfter is what the table holds after this many changes, one row a line.
func (h *history) rowsAfter(changes int) string {
	rows := map[int]string{}
	for _, c := range h.changes[:changes] {
		if rows[c.n] = c.value; c.value == "" {
			delete(rows, c.n)
		}
	}
	var text strings.Builder
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&text, "%d %s\n", n, rows[n])
	}
	return text.String()
}

const allRows = "SELECT coalesce(string_agg(n || ' ' || value || chr(10), '' ORDER BY n), '') FROM public.rows"

// write makes this many changes. Now and then a transaction that began earlier commits later: the order of their numbers is not
// that of their commits.
func (h *history) write(count int) {
	h.t.Helper()
	for range count {
		if len(h.changes)%5 == 4 {
			late, err := pgx.Connect(h.t.Context(), h.server.DSN())
			h.must(err)
			h.change(late, func() { h.change(h.conn, nil) })
			h.must(late.Close(h.t.Context()))
			continue
		}
		h.change(h.conn, nil)
	}
}

// change makes one in a session, and does something before it commits.
func (h *history) change(conn *pgx.Conn, meanwhile func()) {
	h.t.Helper()
	ctx := h.t.Context()
	c := change{n: 1000 + 2*len(h.changes), value: fmt.Sprintf("%016x", h.random.Uint64())}
	if meanwhile != nil {
		c.n++
	}
	sql := "INSERT INTO rows (value, n) VALUES ($1, $2)"
	if old := h.random.IntN(len(h.changes) + 20); meanwhile == nil && old < len(h.changes) && len(h.changes)%3 == 0 {
		c.n, sql = h.changes[old].n, "INSERT INTO rows (value, n) VALUES ($1, $2) ON CONFLICT (n) DO UPDATE SET value = $1"
		if h.random.IntN(2) == 0 {
			c.value, sql = "", "DELETE FROM rows WHERE $1 = '' AND n = $2"
		}
	}
	tx, err := conn.Begin(ctx)
	h.must(err)
	_, err = tx.Exec(ctx, sql, c.value, c.n)
	h.must(err)
	h.must(tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text::bigint").Scan(&c.xid))
	if meanwhile != nil {
		meanwhile()
	}
	_, err = tx.Exec(ctx, "INSERT INTO log VALUES ($1)", len(h.changes))
	h.must(err)
	h.must(tx.Commit(ctx))
	h.must(conn.QueryRow(ctx, "SELECT pg_xact_commit_timestamp($1::text::xid), pg_current_wal_insert_lsn()::text", fmt.Sprint(c.xid)).Scan(&c.at, &c.lsn))
	h.changes = append(h.changes, c)
	if i := len(h.changes); i%4 == 0 {
		h.points[i] = fmt.Sprintf("after %d", i)
		h.exec("SELECT pg_create_restore_point($1)", h.points[i])
	}
}

func (h *history) event() { h.events = append(h.events, len(h.changes)) }

// backs takes a backup while changes are made.
func (h *history) backs(id string) {
	h.t.Helper()
	h.event()
	manifest := h.backupAs(id, func() { h.write(4) })
	h.backups = append(h.backups, kept{manifest, len(h.changes)})
	h.event()
}

// reconnect opens a new session, as the server has changed.
func (h *history) reconnect() {
	h.t.Helper()
	var err error
	h.conn, err = pgx.Connect(h.t.Context(), h.server.DSN())
	h.must(err)
	conn := h.conn
	h.t.Cleanup(func() { conn.Close(context.Background()) })
}

// promote starts the server on its data as a standby, and makes it a primary on a timeline of its own.
func (h *history) promote() {
	h.t.Helper()
	signal := filepath.Join(h.server.DataDir, "standby.signal")
	h.must(os.WriteFile(signal, nil, 0o600))
	h.server.Start()
	h.reconnect()
	h.exec("SELECT pg_promote(true, 60)")
	h.event()
}

// switchesOver stops the primary in order and promotes a replica that has everything.
func (h *history) switchesOver() {
	h.t.Helper()
	h.server.Stop()
	h.promote()
}

// standby is a copy of the data as it is now, as a replica would have it that follows the archive.
func (h *history) standby() *pgtest.Server {
	h.t.Helper()
	h.server.Stop()
	replica := *h.server
	replica.DataDir = filepath.Join(pgtest.Dir(h.t), "pgdata")
	if out, err := exec.Command("cp", "-a", h.server.DataDir, replica.DataDir).CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	replica.Configure(map[string]string{"restore_command": "cp " + h.archived + "/%f %p"})
	h.server.Start()
	h.reconnect()
	return &replica
}

// failsOver kills the primary and promotes a replica that has what was archived. The rest is lost.
func (h *history) failsOver(to *pgtest.Server) {
	h.t.Helper()
	h.server.Kill()
	h.server = to
	h.promote()
	var left, last int
	h.must(h.conn.QueryRow(h.t.Context(), "SELECT count(*), coalesce(max(i), -1) FROM log").Scan(&left, &last))
	if left == len(h.changes) || left != last+1 {
		h.t.Fatalf("of %d changes %d are left, the last of them is %d", len(h.changes), left, last)
	}
	h.t.Logf("%d of %d changes are lost in a failover", len(h.changes)-left, len(h.changes))
	h.changes = h.changes[:left]
	h.changes[left-1].lsn = "" // may be where the timeline was left already
	maps.DeleteFunc(h.points, func(after int, _ string) bool { return after >= left })
	h.event()
}
