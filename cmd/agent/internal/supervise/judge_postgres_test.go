//go:build postgres

package supervise

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/findings"
	"howdah.dev/howdah/pkg/agentapi"
)

// look asks the server how it runs.
func (p *pod) look() (s findings.Sample) {
	p.t.Helper()
	err := p.agent.probe.Ask(p.t.Context(), func(ctx context.Context, conn *pgx.Conn) (err error) {
		s, err = findings.Look(ctx, conn, p.config.MajorVersion, time.Now())
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func TestAPrimarySaysWhatItFindsInHowItRuns(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.run()
	p.awaitStatus("have looked", func(s agentapi.Status) bool { return s.Findings != nil && len(s.Findings.Undecided) > 0 })
	before := p.look()
	p.sql("CHECKPOINT")
	p.sql("SELECT pg_create_physical_replication_slot('unread', true)::text")
	p.sql("SELECT sum(n)::text FROM (SELECT n FROM generate_series(1, 1000000) AS n ORDER BY random()) AS s")
	p.await("count temporary files and the checkpoint", func() bool {
		s := p.look()
		return s.TempBytes > before.TempBytes && s.TempFiles > before.TempFiles && s.CheckpointsRequested > before.CheckpointsRequested
	})
	s := p.look()
	if s.Slot != "unread" || s.SlotActive || s.MaxSessions <= 0 || s.Sessions < 1 || s.MaxWorkers < 1 || s.XIDAge <= 0 || s.MaxXIDAge != 200000000 || s.XIDDatabase == "" ||
		s.LeastSlotBytes < 1<<20 || s.ChecksumFailures != 0 || s.ClockInstance != "" {
		t.Errorf("%+v", s)
	}
	if shown := p.agent.Status().ServerTLS.Shown; shown.Until.Before(time.Now()) || shown.From.After(time.Now()) {
		t.Errorf("the certificate is valid from %s until %s", shown.From, shown.Until)
	}
}
