package upgradejob

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// A linked upgrade shares the files of tables and indexes between the old and the new data. As soon as a server of the new version has
// written to one, the old data is damaged, so it is given up on this volume before anything is linked: no agent starts it again, and the
// way back is the volume of a replica that has everything.

// Inspect says where the data of a generation ends on a volume that nobody uses. It changes nothing.
func (w Worker) Inspect(ctx context.Context, task agentapi.UpgradeJob) (agentapi.UpgradeInspection, error) {
	none := agentapi.UpgradeInspection{}
	old, err := w.Volume.Resolve(task.FromGeneration)
	if err != nil {
		return none, job.Final(ReasonNoWayBack, err)
	}
	if w.Volume.Rewinding(old.ID) {
		return none, job.Final(ReasonNoWayBack, fmt.Errorf("data generation %s was being rewound or given up, and can't be started", old.ID))
	}
	binDir, err := w.binDir(ctx, task.FromVersion)
	if err != nil {
		return none, err
	}
	control, err := postgres.ReadControlData(ctx, w.Run, binDir, w.Volume.PGData(old.ID))
	if err != nil {
		return none, job.Final(ReasonNoWayBack, err)
	}
	bytes, err := w.used(task.FromGeneration)
	if err != nil {
		bytes = 0 // not known, which is no reason to fail
	}
	return agentapi.UpgradeInspection{
		WALEnd: walEnd(control), MajorVersion: old.MajorVersion, State: string(control.State), Bytes: bytes,
		Primary: control.State == postgres.StateShutDown, Replica: control.State == postgres.StateShutDownRecovery,
	}, nil
}

func walEnd(control postgres.ControlData) agentapi.WALEnd {
	return agentapi.WALEnd{
		SystemIdentifier: strconv.FormatUint(control.SystemIdentifier, 10), Timeline: control.Timeline, Checkpoint: control.Checkpoint.String(),
	}
}

// asInspected refuses to link where the data is not as it was found, so that no replica is known to have all of it. It changes nothing.
func (w Worker) asInspected(ctx context.Context, task agentapi.UpgradeJob, found programs) error {
	if task.Link == nil {
		return nil
	}
	control, err := postgres.ReadControlData(ctx, w.Run, found.oldBin, w.Volume.PGData(task.FromGeneration))
	if err != nil {
		return err
	}
	if end := walEnd(control); control.State != postgres.StateShutDown || end != *task.Link {
		return job.Final(ReasonNoWayBack, fmt.Errorf("the data was shut down at %s of timeline %d, and by now it is %q at %s of timeline %d, so no replica is "+
			"known to have all of it, and nothing was linked", task.Link.Checkpoint, task.Link.Timeline, control.State, end.Checkpoint, end.Timeline))
	}
	return nil
}

// giveUp forbids to start the old data on this volume, durably, ahead of pg_upgrade that links: its server of the old version writes WAL that no
// replica has, and then its files are linked. Data that isn't as it was found is not given up.
func (w Worker) giveUp(ctx context.Context, task agentapi.UpgradeJob, found programs) error {
	if task.Link == nil {
		return nil
	}
	if err := w.asInspected(ctx, task, found); err != nil {
		return err
	}
	return w.Volume.BeginRewind(task.FromGeneration)
}

// refuseGivenUp ends a Job whose former pod was killed after it had given the old data up. What that has linked is unknown, and a server
// of the old version may have written; the replica has everything.
func (w Worker) refuseGivenUp(id string) error {
	if !w.Volume.Rewinding(id) {
		return nil
	}
	return job.Final(ReasonUpgradeFailed, errors.New("the former pod of this Job ended after files had begun to be linked, so the old data can't be used on this volume any more"))
}
