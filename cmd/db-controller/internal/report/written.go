package report

import (
	"slices"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/postgres"
)

// writtenInterval is how often it is published at most how much was written.
const writtenInterval = time.Minute

// isStopping: PostgreSQL is being stopped for a requester, which may be about to give up what was written.
func isStopping(locks []v1alpha1.VolumeLock) bool {
	return slices.ContainsFunc(locks, func(lock v1alpha1.VolumeLock) bool {
		return lock.State == v1alpha1.VolumeLockQueued && lock.StoppingSince != nil
	})
}

// reportWritten publishes how much was written since the data generation was adopted, for as long as somebody may want the previous one
// back. What a primary says that doesn't respond at the moment stays.
func reportWritten(o *observed.Cluster) {
	status := &o.Cluster.Status
	if status.PreviousDataGeneration == "" {
		status.Written = nil
		return
	}
	agent, known := o.PrimaryAgent(), status.Written
	if known != nil && known.DataGeneration != status.DataGeneration {
		known, status.Written = nil, nil
	}
	if agent == nil || agent.LSN == 0 || agent.DataGeneration != status.DataGeneration {
		return
	}
	if known != nil && o.Now.Sub(known.Time.Time) < writtenInterval && !isStopping(status.VolumeLocks) {
		return
	}
	now := postgres.LSN(agent.LSN)
	if known == nil {
		status.Written = &v1alpha1.WrittenData{DataGeneration: status.DataGeneration, FromLSN: now.String(), LSN: now.String(), Time: *observed.TimeOf(o.Now)}
		return
	}
	from, err := postgres.ParseLSN(known.FromLSN)
	if err != nil || now < from || now.String() == known.LSN {
		return // nothing new, or not the same history
	}
	status.Written = &v1alpha1.WrittenData{
		DataGeneration: known.DataGeneration, FromLSN: known.FromLSN, LSN: now.String(), WALBytes: int64(now - from), Time: *observed.TimeOf(o.Now),
	}
}
