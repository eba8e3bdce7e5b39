package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// shipPause is how soon to look again whether the open segment is to be shipped.
const shipPause = 5 * time.Second

// shipInterval is how often the open segment is shipped; 0: never.
func shipInterval(config agentapi.Config) time.Duration {
	if config.Archive == nil {
		return 0
	}
	return time.Duration(config.Archive.WALShipIntervalSeconds) * time.Second
}

// shipOpenSegment has the archive never be further behind than was asked for, until ctx ends.
func (s *primaryServices) shipOpenSegment(ctx context.Context) {
	failing := ""
	for {
		every := shipInterval(s.latest.config())
		pause := every
		if every == 0 {
			pause = shipPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if every == 0 || s.Status().Role != rolePrimary {
			continue
		}
		err := s.ship(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			failing = ""
		case failing != err.Error():
			failing = err.Error()
			s.Log.Warn("the open WAL segment can't be uploaded; it is archived when it is complete", "error", err)
		}
	}
}

func (s *primaryServices) ship(ctx context.Context) error {
	var name, flushed string
	at := time.Now()
	err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_walfile_name(lsn), lsn::text FROM pg_current_wal_flush_lsn() AS lsn").Scan(&name, &flushed)
	})
	if err != nil {
		return err
	}
	segment, err := postgres.ParseSegment(name, s.copy.segSize)
	if err != nil {
		return err
	}
	lsn, err := postgres.ParseLSN(flushed)
	if err != nil {
		return err
	}
	return s.archiver.Ship(ctx, segment.Timeline, lsn, at)
}
