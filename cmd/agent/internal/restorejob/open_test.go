//go:build postgres

package restorejob

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// ship ships what the server has flushed of its open segment, as the agent does, and says which segment that is.
func (b *bed) ship(a *archive.Archiver) string {
	b.t.Helper()
	at := time.Now()
	lsn, err := postgres.ParseLSN(b.value("SELECT pg_current_wal_flush_lsn()::text"))
	if err == nil {
		err = a.Ship(b.t.Context(), 1, lsn, at)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if status := a.Status(); status.CompleteUntil.Before(at.UTC()) {
		b.t.Errorf("%+v, after %v", status, at)
	}
	return postgres.SegmentBefore(1, lsn, segSize).Name()
}

// TestWhatWasShippedOfAnOpenSegmentIsRestoredFromTheBucketAlone: the server is killed, and nothing is left of its volume.
func TestWhatWasShippedOfAnOpenSegmentIsRestoredFromTheBucketAlone(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		b := newBed(t, pg)
		b.rows(1, 100)
		b.backup()
		b.rows(121, 200)
		b.archive()
		a := archive.New(filepath.Join(b.server.DataDir, "pg_wal"), slog.New(slog.DiscardHandler), time.Now, archive.DefaultLimits())
		t.Cleanup(a.Close)
		a.SetTarget(&archive.Target{Store: b.store, Writer: "shop-0", Memory: 64 << 20, ShipInterval: time.Second, Claim: layout.Lineage{
			Lineage: b.lineage, SystemIdentifier: strings.TrimSuffix(b.lineage, "-g0"), Generation: "g0", SegmentSize: segSize,
			Writer: layout.Writer{UID: "uid", Namespace: "demo", Name: "shop"}, PGMajor: pg.Major,
		}})
		b.rows(201, 230)
		b.ship(a)
		first := b.value("SELECT pg_current_wal_flush_lsn()::text")
		b.rows(231, 235)
		open := b.ship(a)
		b.rows(236, 240)
		b.server.Kill()

		coverage, err := wal.New(b.store).Coverage(t.Context(), b.lineage)
		if err != nil {
			t.Fatal(err)
		}
		found := coverage.Timelines[0]
		if !found.Open || found.Last.Name() != open || open == b.last || len(found.Holes) != 0 {
			t.Fatalf("%+v, and %s is shipped", found, open)
		}
		b.last = open
		if first, last, count := b.rowsIn(b.restore(b.store, b.task(agentapi.RestoreTarget{}))); first != 1 || last != 235 || count != 235 {
			t.Errorf("%d rows, from %d to %d", count, first, last)
		}
		// As a Restore that was planned when less was shipped.
		if _, last, count := b.rowsIn(b.restore(b.store, b.task(agentapi.RestoreTarget{LSN: first}))); last != 230 || count != 230 {
			t.Errorf("%d rows up to %d, where 230 had been shipped", count, last)
		}
		header, err := wal.New(b.store).ReadHeader(t.Context(), b.lineage, open)
		if err != nil {
			t.Fatal(err)
		}
		if _, last, count := b.rowsIn(b.restore(b.store, b.task(agentapi.RestoreTarget{LSN: header.EndLSN.String()}))); last != 235 || count != 235 {
			t.Errorf("%d rows up to %d, where 235 had been shipped", count, last)
		}
	})
}
