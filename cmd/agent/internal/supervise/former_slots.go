package supervise

import (
	"context"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/postgres"
)

// dropFormerSlots drops the logical slots that this replica has from when it was the primary, and that the present one has too: no slot
// is copied here before. One that the present primary doesn't have is left, as it may be the last there is.
func (s *replicaServices) dropFormerSlots(ctx context.Context) {
	config := s.latest.config()
	leader := s.election.Want().Leader
	if leader.Name == "" || !postgres.KeepsFailoverSlots(s.copy.generation.MajorVersion, config.Parameters) {
		return
	}
	var former []string
	err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		former, err = replicate.FormerSlots(ctx, conn)
		return err
	})
	if err == nil && len(former) > 0 {
		former, err = s.dropKept(ctx, former)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.Log.Warn("logical slots from when this instance was the primary can't be dropped yet", "error", err)
	case len(former) > 0:
		s.Log.Info("dropped logical slots from when this instance was the primary, which the present primary has", "slots", former, "leader", leader.Name)
	}
}

// dropKept drops those of these slots that the primary has.
func (s *replicaServices) dropKept(ctx context.Context, former []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	source := *s.upstream(s.latest.config(), s.election.Want().Leader)
	kept, err := s.replicateInstance(s.copy.generation.MajorVersion, s.copy.binDir, s.copy.paths).KeptBy(ctx, source, former)
	if err != nil || len(kept) == 0 {
		return nil, err
	}
	var dropped []string
	err = s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		dropped, err = replicate.DropFormer(ctx, conn, kept)
		return err
	})
	return dropped, err
}
