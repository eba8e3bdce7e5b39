package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// errReverted is a volume that has less than a replica has received from it.
var errReverted = errors.New("the volume was put back to an earlier state, or its disk has lost what it had confirmed")

// reverted says whether the adopted copy, whose last server was a primary, lacks WAL that a member has received from it. A server sends
// only what is on its own disk, so it must have all of that. On less, it would write other WAL in the place of acknowledged commits, and
// the replicas would take that over, as they stream again from the beginning of a segment. The Lease tells of checkpoints only. Members that
// don't respond can't be heeded.
func (r *runner) reverted(ctx context.Context) error {
	control, err := postgres.ReadControlData(ctx, postgres.Exec, r.adopted.binDir, r.adopted.pgdata)
	if err != nil {
		return err
	}
	timeline := r.known(ctx, r.inputs.config.DataGeneration).timeline
	for _, p := range member.Positions(ctx, r.election.Member) {
		if p.Timeline != timeline || postgres.LSN(p.LSN) <= control.Checkpoint {
			continue
		}
		has, err := reaches(r.adopted.pgdata, control.SegSize, p)
		if err != nil {
			return fmt.Errorf("read the WAL up to %v: %w", postgres.LSN(p.LSN), err)
		}
		if !has {
			return fmt.Errorf("%w: %s has received WAL up to %v of timeline %d from here, and that is not in pg_wal any more; another instance has to be the primary",
				errReverted, p.Pod, postgres.LSN(p.LSN), p.Timeline)
		}
	}
	return nil
}

// reaches says whether pg_wal has everything up to a position.
func reaches(pgdata string, segSize uint64, p agentapi.Position) (bool, error) {
	segment := postgres.SegmentBefore(uint32(p.Timeline), postgres.LSN(p.LSN), segSize)
	file, err := os.Open(filepath.Join(pgdata, "pg_wal", segment.Name()))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	return postgres.WALReaches(file, segment, postgres.LSN(p.LSN))
}
