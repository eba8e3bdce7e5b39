package standbyjob

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// look is what is seen of the server and of the archive, again and again.
type look struct {
	*Worker
	now  func() time.Time
	seen seen

	count    int
	diverged atomic.Bool
	moved    time.Time // when it was looked for another lineage of the source
	// target is where the archive ended when the promotion began, and why that isn't known. known: it is.
	target      target
	targetError string
	targetKnown bool
	// plan is for another copy.
	plan plan
}

// begin forgets what was seen of a former server.
func (l *look) begin() {
	l.diverged.Store(false)
	l.seen.connected, l.seen.paused, l.seen.diverged, l.count = false, false, false, 0
}

// due says whether the archive is looked at this time.
func (l *look) due() bool {
	l.count++
	return l.count%tipEvery == 0 || !l.seen.tipKnown || l.record.Order != ""
}

// pause until the next look. While a promotion waits for something, clients do, too.
func (l *look) pause() time.Duration {
	if l.record.Order != "" {
		return min(l.Pause, time.Second)
	}
	return l.Pause
}

const askTime = 5 * time.Second

func (w *Worker) database() local.Server {
	return local.Server{SocketDir: w.SocketDir, Port: recovery.Port}
}

// server looks how far the server is. One that accepts no connections isn't consistent yet.
func (l *look) server(ctx context.Context, accepts bool) {
	l.seen.diverged = l.astray || l.diverged.Load()
	served, lacked, trouble := l.source.state()
	if lacked != l.seen.lacked {
		l.seen.lackedSince = l.now()
	}
	l.seen.served, l.seen.lacked, l.seen.trouble = served, lacked, trouble
	if l.seen.connected = false; accepts {
		l.ask(ctx)
	}
}

// ask asks the server itself.
func (l *look) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var lsn *string
	var committed *time.Time
	var state *string
	var standby bool
	err := l.database().With(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT r, pg_last_wal_replay_lsn()::text, pg_last_xact_replay_timestamp(),
			CASE WHEN r THEN pg_get_wal_replay_pause_state() END FROM pg_is_in_recovery() r`).Scan(&standby, &lsn, &committed, &state)
	})
	l.seen.writes = err == nil && !standby
	l.seen.connected = err == nil && standby && lsn != nil
	if !l.seen.connected {
		return
	}
	l.seen.complaint, l.seen.paused = "", state != nil && *state == "paused"
	if replayed, err := postgres.ParseLSN(*lsn); err == nil {
		l.seen.replayed, l.seen.positioned = replayed, true
	}
	if committed != nil {
		l.seen.committed = committed.UTC()
	}
}

// lacksSettings says whether replay is paused because the source runs with larger settings than this server.
func (l *look) lacksSettings(ctx context.Context) bool {
	if !l.seen.paused {
		return false
	}
	control, err := l.control(ctx)
	if err != nil {
		return false
	}
	var connections, workers, senders, prepared, locks int
	err = l.database().With(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT current_setting('max_connections')::int, current_setting('max_worker_processes')::int,
			current_setting('max_wal_senders')::int, current_setting('max_prepared_transactions')::int, current_setting('max_locks_per_transaction')::int`).
			Scan(&connections, &workers, &senders, &prepared, &locks)
	})
	return err == nil && (control.MaxConnections > connections || control.MaxWorkerProcesses > workers || control.MaxWALSenders > senders ||
		control.MaxPreparedXacts > prepared || control.MaxLocksPerXact > locks)
}

const (
	tipTime    = 30 * time.Second
	movedEvery = 10 * time.Minute
)

// from is where on the archive is looked at: with the segment that was replayed last, also if that is replayed to its end.
func (l *look) from() postgres.LSN {
	if l.seen.replayed.IsZero() {
		return 0
	}
	return l.seen.replayed.Add(-1)
}

// archive looks how far the archive goes.
func (l *look) archive(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, tipTime)
	defer cancel()
	found, err := readTip(limited, l.store, l.record.Lineage, l.from())
	if err != nil {
		if ctx.Err() == nil {
			l.seen.tipError = explain(err)
		}
		return
	}
	l.seen.tip, l.seen.tipKnown, l.seen.tipError = found, true, ""
	l.source.reaches(found)
	if l.now().Sub(l.moved) < movedEvery {
		return
	}
	if l.seen.movedTo, err = movedTo(limited, l.store, l.record.Lineage, found.stored); err != nil {
		l.Log.Warn("Whether the source archives to another lineage by now isn't known", "error", err)
		return
	}
	l.moved = l.now()
}

// fill puts what was seen into a report.
func (l *look) fill(report *agentapi.StandbyReport) {
	s := l.seen
	report.Reinit = l.plan.shown()
	if !s.replayed.IsZero() {
		report.Replayed = s.replayed.String()
	}
	if !s.committed.IsZero() {
		at := s.committed.Truncate(time.Second)
		report.ReplayedTime = &at
	}
	if s.served.Timeline != 0 {
		report.Timeline = int64(s.served.Timeline)
	}
	report.LagBytes = 0
	if s.tip.newest == 0 {
		return
	}
	report.Archived = s.tip.end().String()
	if !s.replayed.IsZero() {
		report.LagBytes = max(0, s.tip.end().Sub(s.replayed))
	}
	if !s.tip.stored.IsZero() {
		at := s.tip.stored.UTC().Truncate(time.Second)
		report.ArchivedAt = &at
	}
}

// over is a log handler that notes when the server says that it can't follow its source any more.
func (l *look) over(handler slog.Handler) slog.Handler { return &listening{handler, &l.diverged} }

type listening struct {
	slog.Handler
	diverged *atomic.Bool
}

// What PostgreSQL says at the end of each look for another timeline, and when it is started.
var divergence = []string{"forked off current database system timeline", "is not a child of this server's history", "is not a child of database system timeline"}

// waits is what PostgreSQL says every few seconds while nothing new is archived.
const waits = "waiting for WAL to become available"

// Handle takes a note, and passes the record on.
func (l *listening) Handle(ctx context.Context, record slog.Record) error {
	if strings.HasPrefix(record.Message, waits) {
		return nil
	}
	for _, said := range divergence {
		if strings.Contains(record.Message, said) {
			l.diverged.Store(true)
		}
	}
	return l.Handler.Handle(ctx, record)
}
