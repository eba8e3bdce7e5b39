// Package inspectjob looks at a volume that a cluster is to begin with, and says what is on it. It changes nothing.
package inspectjob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// ReasonUnreadable is the reason of a Job that can't read the volume.
const ReasonUnreadable = "VolumesRefused"

// Worker looks at a volume.
type Worker struct {
	Volume generation.Volume
	Run    postgres.Run
}

// Inspect says what the volume has of the data generation that it was told of last. That it has nothing that a server can be started on
// is an answer too, and no error.
func (w Worker) Inspect(ctx context.Context, task agentapi.InspectionJob) (agentapi.VolumeInspection, error) {
	found := agentapi.VolumeInspection{DataGeneration: task.DataGeneration}
	if task.Identity == "" || task.DataGeneration == "" || task.MajorVersion == 0 {
		return found, job.Final(job.ReasonBadJob, errors.New("the job names no cluster, no data generation or no major version"))
	}
	told, known, err := w.Volume.Adoption()
	if err != nil {
		return found, job.Final(ReasonUnreadable, err)
	}
	if known && told.ClusterUID == task.Identity {
		found.DataGeneration, found.Adoptions = told.DataGeneration, told.Number
	}
	copied, err := w.Volume.Resolve(found.DataGeneration)
	switch {
	case errors.Is(err, generation.ErrNotFound):
		found.Unusable = fmt.Sprintf("It has no complete copy of data generation %s.", found.DataGeneration)
		return found, nil
	case errors.Is(err, generation.ErrNoWAL):
		found.Unusable = fmt.Sprintf("No server can be started on it: %s.", err)
		return found, nil
	case err != nil:
		return found, job.Final(ReasonUnreadable, err)
	case w.Volume.Rewinding(copied.ID):
		found.Unusable = fmt.Sprintf("Its copy %s was being rewound, or its files were linked by an upgrade, and can't be started any more.", copied.ID)
		return found, nil
	}
	found.SystemIdentifier, found.MajorVersion = copied.SystemIdentifier, copied.MajorVersion
	if copied.MajorVersion != task.MajorVersion {
		return found, nil // whoever asked has the programs of another version
	}
	return found, w.control(ctx, w.Volume.PGData(copied.ID), &found)
}

// control adds what the control file says. One that can't be read is an answer: PostgreSQL can't read it either.
func (w Worker) control(ctx context.Context, pgdata string, found *agentapi.VolumeInspection) error {
	binDir, err := postgres.BinDir(ctx, w.Run, found.MajorVersion)
	if err != nil {
		return job.Final(ReasonUnreadable, err)
	}
	control, err := postgres.ReadControlData(ctx, w.Run, binDir, pgdata)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		found.Unusable = fmt.Sprintf("Its pg_control can't be read: %s.", err)
		return nil
	}
	if system := strconv.FormatUint(control.SystemIdentifier, 10); system != found.SystemIdentifier {
		found.Unusable = fmt.Sprintf("Its pg_control has the system identifier %s, but the data generation was made with %s: its files were replaced.", system, found.SystemIdentifier)
		return nil
	}
	if lacks := lacksWAL(pgdata, control); lacks != "" {
		found.Unusable = lacks
		return nil
	}
	standby, err := settings.IsStandby(pgdata)
	if err != nil {
		return job.Final(ReasonUnreadable, err)
	}
	found.State = string(control.State)
	found.Primary = !standby && control.State != postgres.StateShutDownRecovery && control.State != postgres.StateInArchiveRecovery
	found.Timeline = max(int64(control.Timeline), int64(control.MinRecoveryTimeline), generation.LatestTimeline(pgdata))
	found.Position = agentapi.VolumePosition{Timeline: int64(control.Timeline), LSN: uint64(control.Checkpoint)}
	if recovered := (agentapi.VolumePosition{Timeline: int64(control.MinRecoveryTimeline), LSN: uint64(control.MinRecoveryEnd)}); found.Position.Before(recovered) {
		found.Position = recovered
	}
	return nil
}

// lacksWAL says that a server can't recover, because the WAL from which it has to is missing. Where a base backup is to be replayed first,
// the control file doesn't say which that is.
func lacksWAL(pgdata string, control postgres.ControlData) string {
	if _, err := os.Lstat(filepath.Join(pgdata, "backup_label")); err == nil {
		return ""
	}
	const timeline = 8 // digits; the segment may be one of an earlier timeline
	if len(control.RedoSegment) <= timeline {
		return ""
	}
	segments, err := filepath.Glob(filepath.Join(pgdata, "pg_wal", "*"+control.RedoSegment[timeline:]))
	if err == nil && len(segments) == 0 {
		return fmt.Sprintf("Its recovery would begin in WAL segment %s, which is missing.", control.RedoSegment)
	}
	return ""
}
