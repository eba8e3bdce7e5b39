package importjob

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// lookTime is how long one look at the source may take.
const lookTime = time.Minute

// look at the slots, at the subscriptions, and now and then at tables. A source that is away for a while is a problem and no failure.
func (f *follower) look(ctx context.Context) error {
	f.refresh()
	slots, err := f.source.slots(ctx, f.copied.Major)
	if err != nil {
		return f.away(ctx, err)
	}
	for _, database := range f.copied.Databases {
		slot, found := slots[f.name(database)]
		if !found || slot.lost {
			return f.lost(ctx, "the source has dropped the replication slot of database %s, or WAL that it needs (max_slot_wal_keep_size)", database)
		}
		f.said.LagBytes = max(f.said.LagBytes, slot.behind)
		f.said.RetainedBytes = max(f.said.RetainedBytes, slot.retained)
	}
	if err := f.tooMuch(ctx); err != nil {
		return err
	}
	if err := f.resume(ctx); err != nil || !f.resumed {
		return err
	}
	if err := f.lookHere(ctx); err != nil {
		return err
	}
	if f.looks++; f.looks%6 == 1 || f.said.State == StateCuttingOver || len(f.differences) > 0 {
		if err := f.compareTables(ctx); err != nil {
			return err
		}
	}
	for _, text := range f.differences {
		f.problem("%s", text)
	}
	return f.advance(ctx)
}

// refresh logs in with what the Secrets have now: a password may be changed meanwhile.
func (f *follower) refresh() {
	if source, err := openSource(f.Task.Source, f.Secrets, f.Scratch); err == nil {
		f.source = source
	}
}

// away is a source that can't be asked.
func (f *follower) away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	f.problem("The source can't be asked: %v.", local.Plain(err))
	return nil
}

// tooMuch gives up before the disk of the source is full.
func (f *follower) tooMuch(ctx context.Context) error {
	if limit := f.wanted.MaxRetainedBytes; limit > 0 && f.said.RetainedBytes > limit {
		return f.lost(ctx, "the source retains %s of WAL, and spec.bootstrap.import.online.maxRetainedWAL allows %s", size(f.said.RetainedBytes), size(limit))
	}
	return nil
}

// lookHere finds subscriptions whose changes can't be applied: PostgreSQL ends their worker, and starts it again.
func (f *follower) lookHere(ctx context.Context) error {
	return f.Target.With(ctx, postgres.RoleSuperuser, func(conn *pgx.Conn) error {
		for _, database := range f.copied.Databases {
			var running bool
			err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_subscription WHERE subname = $1 AND pid IS NOT NULL)", f.name(database)).Scan(&running)
			if err != nil {
				return err
			}
			if said := f.lastError(); !running && said != "" {
				f.problem("Database %s: changes can't be applied, which is tried again and again: %s.", database, strings.TrimSuffix(said, "."))
			}
		}
		return nil
	})
}

func (f *follower) serverLog() string { return filepath.Join(f.Scratch, "server.log") }

// lastError is the last one in the server's log, without the rows and statements that it quotes.
func (f *follower) lastError() (found string) {
	const most = 64 << 10
	log, err := os.Open(f.serverLog())
	if err != nil {
		return ""
	}
	defer log.Close()
	from := f.log
	if info, err := log.Stat(); err == nil {
		from = max(from, info.Size()-most)
	}
	content := make([]byte, most)
	n, _ := log.ReadAt(content, from) // up to the end of the file
	for line := range strings.Lines(string(content[:n])) {
		if _, text, is := strings.Cut(line, "ERROR:"); is {
			found = strings.TrimSpace(text)
		}
	}
	return found
}

// slot is one of ours, as the source sees it.
type slot struct {
	behind, retained int64
	confirmed        postgres.LSN
	lost             bool
}

func (s *source) slots(ctx context.Context, major int) (map[string]slot, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	lost := "restart_lsn IS NULL"
	if major >= 13 {
		lost += " OR wal_status = 'lost'"
	}
	found := map[string]slot{}
	err := s.with(ctx, s.at.Database, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT slot_name::text, coalesce(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint,
			coalesce(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn), 0)::bigint, coalesce(confirmed_flush_lsn::text, '0/0'), coalesce(`+lost+`, false)
			FROM pg_catalog.pg_replication_slots WHERE slot_name ~ $1`, "^"+agentapi.OnlineImportPrefix)
		if err != nil {
			return err
		}
		var name, confirmed string
		var one slot
		_, err = pgx.ForEachRow(rows, []any{&name, &one.behind, &one.retained, &confirmed, &one.lost}, func() (err error) {
			one.confirmed, err = postgres.ParseLSN(confirmed)
			found[name] = one
			return err
		})
		return err
	})
	return found, err
}

// watchRetention ends ctx when the slots retain too much while the copy is made.
func (w *Worker) watchRetention(ctx context.Context, source *source, inv *Inventory) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(3 * usualPause)
		defer ticker.Stop()
		limit := int64(0)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := w.retainsTooMuch(ctx, source, inv, &limit); err != nil {
				cancel(err)
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// retainsTooMuch compares with the last limit that was heard of.
func (w *Worker) retainsTooMuch(ctx context.Context, source *source, inv *Inventory, limit *int64) error {
	slots, err := source.slots(ctx, inv.Major)
	if err != nil {
		return nil //nolint:nilerr // the copy finds out for itself whether the source is away
	}
	said := Following{State: StateCopying}
	for _, d := range inv.Databases {
		said.RetainedBytes = max(said.RetainedBytes, slots[w.Task.Online.Name(d.Name)].retained)
	}
	if wanted, err := w.Following(ctx, said); err == nil {
		*limit = wanted.MaxRetainedBytes
	}
	if *limit > 0 && said.RetainedBytes > *limit {
		return job.Final(ReasonSourceLost, fmt.Errorf("the source retains %s of WAL, and spec.bootstrap.import.online.maxRetainedWAL allows %s: allow more, or copy faster with more connections",
			size(said.RetainedBytes), size(*limit)))
	}
	return nil
}
