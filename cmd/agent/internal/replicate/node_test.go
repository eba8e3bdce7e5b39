//go:build postgres

package replicate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/postgres"
)

// sql runs a statement and returns the first column of its first row.
func (n *node) sql(statement string) (text string) {
	n.bed.t.Helper()
	n.with(func(conn *pgx.Conn) error {
		rows, err := conn.Query(context.Background(), statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() && text == "" {
			values, err := rows.Values()
			if err != nil {
				return err
			}
			if len(values) > 0 {
				text = fmt.Sprint(values[0])
			}
		}
		return rows.Err()
	})
	return text
}

// insert adds rows after those that there are.
func (n *node) insert(rows int) {
	n.bed.t.Helper()
	n.sql(fmt.Sprintf("INSERT INTO public.t SELECT n, repeat('x', 100) FROM (SELECT coalesce(max(i), 0) + 1 AS m FROM public.t) AS last, generate_series(m, m + %d) AS n", rows-1))
}

const contents = "SELECT format('%s %s', count(*), md5(string_agg(i::text, ',' ORDER BY i))) FROM public.t"

func (n *node) position() (p Position) {
	n.bed.t.Helper()
	n.with(func(conn *pgx.Conn) (err error) {
		p, err = LocalPosition(context.Background(), conn)
		return err
	})
	return p
}

func (n *node) keepSlots(positions map[string]uint64) (kept map[string]uint64) {
	n.bed.t.Helper()
	peers := slices.DeleteFunc(n.bed.pods(), func(pod string) bool { return pod == n.Pod })
	n.with(func(conn *pgx.Conn) (err error) {
		kept, err = KeepSlots(context.Background(), conn, peers, positions)
		return err
	})
	return kept
}

func (b *bed) pods() (pods []string) {
	for _, n := range b.nodes {
		pods = append(pods, n.Pod)
	}
	return pods
}

// join clones the node from another one and starts it as a replica of that.
func (n *node) join(of *node) {
	n.bed.t.Helper()
	n.clone(of)
	n.start(of)
	n.awaitStreaming(of)
	n.keepSlots(nil)
}

func (n *node) clone(of *node) generation.Generation {
	n.bed.t.Helper()
	g, err := n.Clone(n.bed.t.Context(), of.upstream(), Wanted{DataGeneration: wanted, MajorVersion: n.bed.pg.Major}, func(int64, int64) {})
	if err != nil {
		n.bed.t.Fatal(err)
	}
	if err := n.Volume.Adopt(g.ID); err != nil {
		n.bed.t.Fatal(err)
	}
	return g
}

// rewind makes what the node has fit to follow another one.
func (n *node) rewind(of *node) generation.Generation {
	n.bed.t.Helper()
	g, err := n.Volume.Resolve(wanted)
	if err != nil {
		n.bed.t.Fatal(err)
	}
	if err := n.Rewind(n.bed.t.Context(), of.upstream(), g); err != nil {
		n.bed.t.Fatal(err)
	}
	return g
}

func (n *node) awaitStreaming(of *node) {
	n.bed.t.Helper()
	await(n.bed.t, n.Pod+" to stream from "+of.Pod, func() bool {
		p := n.position()
		return p.Streaming && p.Upstream == of.Pod
	})
}

// awaitLevel waits until a replica has replayed all that the primary has written.
func (n *node) awaitLevel(of *node) {
	n.bed.t.Helper()
	want := of.position().LSN
	await(n.bed.t, n.Pod+" to be level with "+of.Pod, func() bool { return n.position().Replayed >= want })
}

func (n *node) promote() {
	n.bed.t.Helper()
	n.with(func(conn *pgx.Conn) error { return Promote(context.Background(), In(conn), func(postgres.LSN) {}) })
}

// freeze keeps a replica where it is, whatever its primary writes from then on, until it is thawed. The primary's end of
// the stream is closed: what lay in the sockets' buffers would reach the replica after the thaw, more of it or less.
func (n *node) freeze(primary *node) (thaw func()) {
	n.bed.t.Helper()
	var pid int
	if _, err := fmt.Sscan(n.sql("SELECT pid::text FROM pg_stat_wal_receiver"), &pid); err != nil {
		n.bed.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		n.bed.t.Fatal(err)
	}
	const close = "SELECT pg_terminate_backend(pid, 60000)::text FROM pg_stat_replication WHERE application_name = '%s'"
	if closed := primary.sql(fmt.Sprintf(close, n.Pod)); closed != "true" {
		n.bed.t.Fatalf("the stream to %s was not closed: %q", n.Pod, closed)
	}
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}

func (n *node) copies() (ids []string) {
	n.bed.t.Helper()
	entries, err := n.Volume.List()
	if err != nil {
		n.bed.t.Fatal(err)
	}
	for _, entry := range entries {
		ids = append(ids, entry.ID)
	}
	return ids
}

func count(text string) string {
	n, _, _ := strings.Cut(text, " ")
	return n
}
