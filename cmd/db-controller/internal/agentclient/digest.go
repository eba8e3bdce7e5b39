package agentclient

import (
	"crypto/sha256"
	"encoding/json"
	"math/bits"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// digestOf an answer, without what always changes. What grows by and by counts when it has grown much; the passes that are made
// every few seconds in any case see it as it is.
func digestOf(status *agentapi.Status) digest {
	if status == nil {
		return digest{}
	}
	coarse := *status
	coarse.LSN = 0
	coarse.Usage, coarse.Sessions = nil, nil // clusters that follow their load are looked at often
	coarse.Archive = coarseArchive(status.Archive)
	coarse.Election = coarseElection(status.Election)
	coarse.Replication = coarseReplication(status.Replication)
	coarse.Rejoin = coarseRejoin(status.Rejoin)
	coarse.Volume, coarse.WALVolume = coarseVolume(status.Volume), coarseVolume(status.WALVolume)
	coarse.Disk = coarseDisk(status.Disk)
	coarse.Checks = coarseChecks(status.Checks)
	coarse.Slots = coarseSlots(status.Slots)
	data, err := json.Marshal(coarse)
	if err != nil {
		data = []byte(err.Error())
	}
	return sha256.Sum256(data)
}

// magnitude is how many binary digits a number has.
func magnitude(n int64) int64 { return int64(bits.Len64(uint64(max(n, 0)))) }

func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return int64(float64(part) / float64(whole) * 100)
}

func coarseArchive(archive *agentapi.ArchiveStatus) *agentapi.ArchiveStatus {
	if archive == nil {
		return nil
	}
	coarse := *archive
	coarse.LastWAL, coarse.LastTime, coarse.CompleteUntil = "", time.Time{}, time.Time{}
	if archive.LastWAL != "" {
		coarse.LastWAL = "some"
	}
	coarse.RPOSeconds = float64(magnitude(int64(archive.RPOSeconds) / 32))
	// A segment or two are on their way at a busy primary at any time.
	coarse.Waiting, coarse.WaitingSince = int(magnitude(int64(archive.Waiting)/4)), time.Time{}
	if coarse.Waiting > 0 {
		coarse.WaitingSince = archive.WaitingSince.Truncate(time.Minute)
	}
	return &coarse
}

func coarseElection(election *agentapi.ElectionStatus) *agentapi.ElectionStatus {
	if election == nil {
		return nil
	}
	coarse := *election
	coarse.LeaseAgeSeconds = float64(magnitude(int64(election.LeaseAgeSeconds) / 8))
	return &coarse
}

func coarseReplication(replication *agentapi.ReplicationStatus) *agentapi.ReplicationStatus {
	if replication == nil {
		return nil
	}
	coarse := *replication
	coarse.ReceivedLSN, coarse.ReplayedLSN, coarse.OverdueBytes = "", "", nil
	// What a busy primary has just written is no news.
	coarse.LagBytes = magnitude(replication.Overdue() >> 20)
	coarse.LagSeconds = float64(magnitude(int64(replication.LagSeconds) / 2))
	return &coarse
}

func coarseRejoin(rejoin *agentapi.RejoinStatus) *agentapi.RejoinStatus {
	if rejoin == nil {
		return nil
	}
	coarse := *rejoin
	coarse.BytesDone, coarse.BytesTotal = percent(rejoin.BytesDone, rejoin.BytesTotal)/5, 0
	return &coarse
}

func coarseVolume(volume *agentapi.VolumeStatus) *agentapi.VolumeStatus {
	if volume == nil {
		return nil
	}
	coarse := *volume
	coarse.UsedBytes, coarse.WALBytes = percent(volume.UsedBytes, volume.Bytes), 0
	coarse.Cause, coarse.FullAt = "", volume.FullAt.Truncate(time.Hour)
	return &coarse
}

func coarseDisk(disk *agentapi.DiskStatus) *agentapi.DiskStatus {
	if disk == nil {
		return nil
	}
	coarse := *disk
	coarse.SyncSeconds = float64(magnitude(int64(disk.SyncSeconds)))
	return &coarse
}

// coarseChecks has what was found, and not when or after how many indexes.
func coarseChecks(checks *agentapi.Checks) *agentapi.Checks {
	if checks == nil {
		return nil
	}
	coarse := *checks
	coarse.IndexesChecked, coarse.IndexesSkipped, coarse.IndexesWaiting, coarse.ClockAheadSeconds = 0, 0, 0, 0
	coarse.Done = make(map[string]agentapi.Check, len(checks.Done))
	for name, check := range checks.Done {
		coarse.Done[name] = agentapi.Check{Failed: check.Failed}
	}
	return &coarse
}

func coarseSlots(slots *agentapi.SlotsStatus) *agentapi.SlotsStatus {
	if slots == nil {
		return nil
	}
	coarse := agentapi.SlotsStatus{Hash: slots.Hash, Slots: slices.Clone(slots.Slots)}
	for i := range coarse.Slots {
		coarse.Slots[i].RetainedBytes = magnitude(coarse.Slots[i].RetainedBytes >> 20)
	}
	return &coarse
}
