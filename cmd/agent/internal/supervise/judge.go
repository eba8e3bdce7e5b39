package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/findings"
	"howdah.dev/howdah/pkg/agentapi"
)

// findingsInterval is between two looks at what the primary does.
const findingsInterval = time.Minute

// judge publishes what is found in how the primary runs, until ctx ends: from then on nothing is known.
func (s *primaryServices) judge(ctx context.Context) {
	keeper := &findings.Keeper{}
	defer s.set(func(status *agentapi.Status) { status.Findings = nil })
	tick := time.NewTicker(findingsInterval)
	defer tick.Stop()
	for {
		s.judgeOnce(ctx, keeper)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *primaryServices) judgeOnce(ctx context.Context, keeper *findings.Keeper) {
	ctx, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	var sample findings.Sample
	err := s.probe.Ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		sample, err = findings.Look(ctx, conn, s.copy.generation.MajorVersion, time.Now())
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("PostgreSQL does not report its state", "error", err)
		}
		return
	}
	if told := s.Status().ServerTLS; told != nil {
		sample.Certificate = told.Shown
	}
	found := keeper.Add(sample)
	s.set(func(status *agentapi.Status) { status.Findings = &found })
}
