//go:build postgres

package supervise

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/test/testkit/pgtest"
)

func TestTheOpenSegmentIsShippedEveryFewSecondsUntilItIsArchived(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	p, store := archiving(t)
	config := p.with(map[string]string{"archive_timeout": "0"})
	config.Archive.WALShipIntervalSeconds = 1
	p.configure(config)
	p.run()
	p.fill()
	p.sql("INSERT INTO public.t SELECT 2")
	written := time.Now()
	p.awaitStatus("ship what was written", func(s agentapi.Status) bool { return s.Archive.CompleteUntil.After(written) })
	t.Logf("after %v", time.Since(written).Round(time.Millisecond))
	open := p.sql("SELECT pg_walfile_name(pg_current_wal_lsn())")
	coverage, err := wal.New(store).Coverage(t.Context(), p.lineage())
	if err != nil || !coverage.Timelines[0].Open || coverage.Timelines[0].Last.Name() != open {
		t.Errorf("%+v, %v", coverage, err)
	}
	header, err := wal.New(store).ReadHeader(t.Context(), p.lineage(), open)
	if err != nil || header.LastCommit == nil {
		t.Errorf("%+v, %v", header, err)
	}
	p.awaitStatus("say that little is at risk", func(s agentapi.Status) bool { return s.Archive.RPOSeconds < 5 })

	p.fill()
	p.awaitStatus("archive it", func(s agentapi.Status) bool { return s.Archive.LastWAL >= open })
	p.await("take the pieces away", func() bool {
		for info, err := range store.List(t.Context(), "", "") {
			if segment, is := wal.OpenSegment(info.Key[max(0, len(info.Key)-47):]); err != nil || is && segment == open {
				return false
			}
		}
		return true
	})
	if content, _, err := wal.New(store).Get(t.Context(), p.lineage(), open); err != nil || len(content) != 16<<20 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
}
