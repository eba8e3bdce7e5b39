package agentapi

import (
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// StandbyJob says which archive an init Job follows until it is told to promote the data.
type StandbyJob struct {
	// Object is the ConfigMap in which the Job says how far it is, and learns what is wanted.
	Object Object `json:"object"`
	// Cluster is the UID of the cluster. The volume records it, and a request that names another one counts for nothing.
	Cluster string `json:"cluster"`
	// Repository with the archive. It is only read, whatever it says itself.
	Repository objstore.Config `json:"repository"`
	// Lineage to follow; empty: the one that was written last, of the only cluster in the repository.
	Lineage string `json:"lineage,omitempty"`
	// LostSlots are logical slots, by name, that clients may have read from beyond the data. They are not created by themselves.
	LostSlots []string `json:"lostSlots,omitempty"`
	// PreloadLibraries is shared_preload_libraries of the cluster, without which PostgreSQL may not understand all of the WAL.
	PreloadLibraries string `json:"preloadLibraries,omitempty"`
	// MemoryLimit of the buffers for the backup, in bytes.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
}

// Keys of the ConfigMap in which a standby's Job reports.
const (
	StandbyKey       = "standby" // StandbyReport
	StandbyWantedKey = "wanted"  // StandbyWanted, which the db-controller writes
)

// StandbyPromotion is how a standby is promoted.
type StandbyPromotion string

// The ways, with the words of v1alpha1.
const (
	PromoteAtEndOfArchive StandbyPromotion = "EndOfArchive"
	PromoteImmediately    StandbyPromotion = "Immediately"
)

// StandbyWanted is what may change while a standby follows.
type StandbyWanted struct {
	// Cluster is the UID of the cluster that the rest is about.
	Cluster string `json:"cluster"`
	// Promote is the promotion that was requested, and recorded in the status of the cluster; empty: none was.
	Promote StandbyPromotion `json:"promote,omitempty"`
	// Reinit is whether a copy that can't continue may be replaced by itself; empty: it may not.
	Reinit StandbyReinitPolicy `json:"reinit,omitempty"`
}

// StandbyReinitPolicy is whether a copy that can't continue may be replaced, with the words of v1alpha1.
type StandbyReinitPolicy string

// StandbyReinitFromNewer allows it where a backup of the source is newer than all that the copy has replayed.
const StandbyReinitFromNewer StandbyReinitPolicy = "FromNewerBackup"

// StandbyReinit is another copy of the data that is made beside the current one, and replaces that once it is complete.
type StandbyReinit struct {
	Stage StandbyReinitStage `json:"stage"`
	// Reason of the StandbyProblem that it solves.
	Reason  string `json:"reason"`
	Lineage string `json:"lineage"`
	Backup  string `json:"backup"`
	// Beyond is the LSN that the new copy has to replay before it replaces the other one; empty: it only has to be consistent.
	Beyond string `json:"beyond,omitempty"`
	// StartsAt is when it begins, or has begun.
	StartsAt time.Time `json:"startsAt"`
}

// StandbyReinitStage is how far that is.
type StandbyReinitStage string

// The stages, in their order.
const (
	StandbyReinitPlanned    StandbyReinitStage = "Planned"
	StandbyReinitRestoring  StandbyReinitStage = "Restoring"
	StandbyReinitCatchingUp StandbyReinitStage = "CatchingUp"
)

// StandbyStage is how far a standby is, as its volume records it.
type StandbyStage string

// The stages, in their order.
const (
	StandbyRestoring StandbyStage = "Restoring"
	StandbyFollowing StandbyStage = "Following"
	StandbyPromoting StandbyStage = "Promoting"
)

// StandbyReport is what a standby's Job says.
type StandbyReport struct {
	Stage   StandbyStage `json:"stage"`
	Lineage string       `json:"lineage,omitempty"`
	Backup  string       `json:"backup,omitempty"`
	// Replayed is the position up to which WAL was replayed, and ReplayedTime that of the last commit.
	Replayed     string     `json:"replayed,omitempty"`
	ReplayedTime *time.Time `json:"replayedTime,omitempty"`
	Timeline     int64      `json:"timeline,omitempty"`
	// Archived is the end of the whole segments in the archive, and ArchivedAt when the newest was stored.
	Archived   string     `json:"archived,omitempty"`
	ArchivedAt *time.Time `json:"archivedAt,omitempty"`
	LagBytes   int64      `json:"lagBytes,omitempty"`
	// Problems keep it from following, or from the promotion.
	Problems []StandbyProblem `json:"problems,omitempty"`
	// Reinit is another copy that is planned or made; nil: none is.
	Reinit *StandbyReinit `json:"reinit,omitempty"`
	// ReinitializedAt is when a copy was replaced last; nil: none was.
	ReinitializedAt *time.Time `json:"reinitializedAt,omitempty"`
	// Volume is the space on the volume.
	Volume *VolumeStatus `json:"volume,omitempty"`
}

// StandbyProblem is a reason with a sentence for a person.
type StandbyProblem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons of a StandbyProblem, as conditions have them.
const (
	StandbyNotFollowing = "NotFollowing"
	StandbyWALMissing   = "WALMissing"
	StandbyDiverged     = "Diverged"
	StandbySourceMoved  = "SourceMoved"
	// StandbyReinitializing: another copy is planned or made, and the message says why and from which backup.
	StandbyReinitializing = "Reinitializing"
)
