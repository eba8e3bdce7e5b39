package agentapi

import "time"

// VolumeStatus says how full the volume of an instance is.
type VolumeStatus struct {
	// Bytes of its file system that are there for us, and UsedBytes of them. The agent's reserve counts as free.
	Bytes     int64 `json:"bytes"`
	UsedBytes int64 `json:"usedBytes"`
	// WALBytes in pg_wal.
	WALBytes int64 `json:"walBytes,omitempty"`
	// State: AlmostFull or Full; empty: there is space.
	State string `json:"state,omitempty"`
	// Cause says in a sentence what takes the space, when there is little.
	Cause string `json:"cause,omitempty"`
	// FullAt estimates when clients may only read, as the volume fills now; zero: it doesn't fill.
	FullAt time.Time `json:"fullAt,omitzero"`
}

// FullVolume is a volume of the instance that is full; nil: there is none.
func (s *Status) FullVolume() *VolumeStatus {
	for _, volume := range []*VolumeStatus{s.Volume, s.WALVolume} {
		if volume != nil && volume.State == VolumeFull {
			return volume
		}
	}
	return nil
}

// WALOn is the volume that WAL is on; nil: nothing is known of it.
func (s *Status) WALOn() *VolumeStatus {
	if s.WALVolume != nil {
		return s.WALVolume
	}
	return s.Volume
}

// FullAt is when the first of the volumes will be full; zero: none fills.
func (s *Status) FullAt() (first time.Time) {
	for _, volume := range []*VolumeStatus{s.Volume, s.WALVolume} {
		if volume != nil && !volume.FullAt.IsZero() && (first.IsZero() || volume.FullAt.Before(first)) {
			first = volume.FullAt
		}
	}
	return first
}

// DiskStatus is whether the disk of a volume answers.
type DiskStatus struct {
	// SyncSeconds is how long it took to write and sync a block, or takes.
	SyncSeconds float64 `json:"syncSeconds"`
	// StalledSince: a write has not ended for so long that the instance hands over, or does not take over; zero: the disk answers.
	StalledSince time.Time `json:"stalledSince,omitzero"`
}

// States of a volume.
const (
	VolumeAlmostFull = "AlmostFull"
	VolumeFull       = "Full" // a primary takes no writes
)
