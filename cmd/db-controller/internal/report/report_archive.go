package report

import (
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/agentapi"
)

const (
	// lateAfter is how long a segment waits before that is published: most of them wait for a moment.
	lateAfter = time.Minute
	// behindAfter is how long one waits before the archive counts as lagging.
	behindAfter = 5 * time.Minute
)

// reportBehind publishes what waits for the archive, while that is worth knowing, and what failed last.
func reportBehind(archive *v1alpha1.ArchiveStatus, agent *agentapi.Status, now time.Time) {
	seen := agent.Archive
	archive.FailingSince, archive.Waiting, archive.WaitingSince = nil, 0, nil
	failing := !seen.FailingSince.IsZero()
	if failing {
		archive.FailingSince = observed.TimeOf(seen.FailingSince)
	}
	late := failing || !seen.WaitingSince.IsZero() && now.Sub(seen.WaitingSince) >= lateAfter
	if late {
		archive.Waiting = int32(min(seen.Waiting, 1<<30))
		archive.WaitingSince = observed.TimeIfSet(seen.WaitingSince)
	}
	reportFull(archive, agent.FullAt(), late, now)
	reportFailure(archive, seen, failing)
	if damaged := seen.Damaged; damaged != nil {
		archive.DamagedWAL = &v1alpha1.DamagedWAL{Segment: damaged.Segment, LSN: damaged.LSN, Time: *observed.TimeOf(damaged.Time)}
	}
	if known := archive.CompleteUntil; known == nil || now.Sub(known.Time) >= archiveInterval && seen.CompleteUntil.Sub(known.Time) >= time.Second {
		archive.CompleteUntil = observed.TimeIfSet(seen.CompleteUntil)
	}
}

// reportFull publishes an estimate, and another one only when it differs by a tenth: it is another one at each look.
func reportFull(archive *v1alpha1.ArchiveStatus, fullAt time.Time, late bool, now time.Time) {
	if !late || fullAt.IsZero() {
		archive.DiskFullAt = nil
		return
	}
	step := max(fullAt.Sub(now)/10, time.Minute)
	if known := archive.DiskFullAt; known == nil || known.Sub(fullAt).Abs() >= step {
		archive.DiskFullAt = observed.TimeOf(fullAt)
	}
}

// reportFailure publishes the last failure: another one at once, the same one again once a minute and when it is over.
func reportFailure(archive *v1alpha1.ArchiveStatus, seen *agentapi.ArchiveStatus, failing bool) {
	if seen.LastFailure == "" {
		return // the agent has forgotten it, which doesn't make it untrue
	}
	known := archive.LastFailureTime
	if failing && known != nil && archive.LastFailure == seen.LastFailure && seen.LastFailureTime.Sub(known.Time) < archiveInterval {
		return
	}
	archive.LastFailure, archive.LastFailureTime = seen.LastFailure, observed.TimeOf(seen.LastFailureTime)
}

// damagedFor is how long the condition tells of damaged WAL.
const damagedFor = 24 * time.Hour

// damagedMessage tells of damaged WAL that was found lately; empty: there is none.
func damagedMessage(archive *v1alpha1.ArchiveStatus, now time.Time) string {
	damaged := archive.DamagedWAL
	if damaged == nil || now.Sub(damaged.Time.Time) >= damagedFor {
		return ""
	}
	return fmt.Sprintf("The record at LSN %s in WAL segment %s has a wrong checksum, and was archived as it is. No restore from an earlier backup gets past it; "+
		"the backup-controller takes a full backup that begins after it. Look at the disk of the primary.", damaged.LSN, damaged.Segment)
}

// behind says whether segments wait for longer than a busy archive explains.
func behind(archive *v1alpha1.ArchiveStatus, now time.Time) bool {
	return archive.WaitingSince != nil && now.Sub(archive.WaitingSince.Time) >= behindAfter
}

// outlook is what becomes of it if nobody does anything, for the end of a message.
func outlook(archive *v1alpha1.ArchiveStatus) string {
	text := ""
	if archive.CompleteUntil != nil {
		text += fmt.Sprintf(" What was committed since %s is on the volumes only.", archive.CompleteUntil.UTC().Format(time.RFC3339))
	}
	if archive.DiskFullAt != nil {
		text += fmt.Sprintf(" At this rate the primary's volume will be full at about %s.", archive.DiskFullAt.UTC().Format(time.RFC3339))
	}
	return text
}

// behindMessage tells of an archive that doesn't fail, and doesn't keep up.
func behindMessage(archive *v1alpha1.ArchiveStatus) string {
	return fmt.Sprintf("%d WAL segments wait to be archived, the first since %s. Pushes succeed, but more slowly than WAL is written.%s",
		archive.Waiting, archive.WaitingSince.UTC().Format(time.RFC3339), outlook(archive))
}
