package supervise

import (
	"context"
	"errors"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
)

// known is what a volume says of the data before a server runs on it.
type known struct {
	whole      bool // a server may be started on it, as far as that can be told
	standby    bool // the last server on it was a replica
	timeline   int64
	checkpoint elect.End
}

// lookPause is between two looks at a volume that has no whole copy.
const lookPause = 10 * time.Second

// lookAgain looks whether the volume has a whole copy by now, where it had none when the agent started: a disk may answer again, and programs that could
// not be started may be. Nobody else would tell an instance that was primary last and waits for its data.
func (r *runner) lookAgain(ctx context.Context) {
	if r.election.Self.Whole || r.adopted != nil || time.Since(r.looked) < lookPause {
		return
	}
	r.looked = time.Now()
	if self := r.self(ctx, r.inputs.config); self.Whole {
		member.Found(r.election.Member, self)
	}
}

// known reads the control file of the copy that is to be run. Where it can't be read the copy is of no use to whoever was primary last.
func (i *instance) known(ctx context.Context, wanted string) known {
	g, err := i.Volume.Resolve(wanted)
	if err != nil || i.Volume.Rewinding(g.ID) {
		return known{}
	}
	pgdata := i.Volume.PGData(g.ID)
	binDir, err := postgres.BinDir(ctx, postgres.Exec, g.MajorVersion)
	if err != nil {
		i.Log.Error("the data can't be inspected", "generation", g.ID, "error", err)
		return known{}
	}
	control, err := postgres.ReadControlData(ctx, postgres.Exec, binDir, pgdata)
	signal, errSignal := settings.IsStandby(pgdata)
	if err := errors.Join(err, errSignal); err != nil {
		i.Log.Error("the data can't be inspected", "generation", g.ID, "error", err)
		return known{}
	}
	return known{
		whole: true, standby: signal || inRecovery(control), timeline: max(int64(control.Timeline), int64(control.MinRecoveryTimeline), generation.LatestTimeline(pgdata)),
		checkpoint: elect.End{Timeline: int64(control.Timeline), LSN: uint64(control.Checkpoint)},
	}
}

// inRecovery says whether the last server on the data was a replica, even where its promotion was killed: PostgreSQL removes the signal before it writes the
// history of the new timeline and records that timeline in pg_control.
func inRecovery(control postgres.ControlData) bool {
	return control.State == postgres.StateInArchiveRecovery || control.State == postgres.StateShutDownRecovery
}
