package agentapi

import "time"

// Status is the answer to RouteStatus: what the agent of one pod knows.
type Status struct {
	Pod            string `json:"pod"`
	DataGeneration string `json:"dataGeneration"`
	// SystemIdentifier as pg_controldata prints it.
	SystemIdentifier string `json:"systemIdentifier"`
	// Format of the data; nil: it is not known yet.
	Format *DataFormat `json:"format,omitempty"`
	// State of PostgreSQL.
	State State `json:"state"`
	// Role: primary or replica; empty until known.
	Role     string `json:"role,omitempty"`
	Timeline int64  `json:"timeline,omitempty"`
	// LSN that a primary had written when it was last asked, every few seconds.
	LSN uint64 `json:"lsn,omitempty"`
	// Version such as 17.5.
	Version string `json:"version,omitempty"`
	// ConfigHash of the configuration that was applied last.
	ConfigHash string `json:"configHash,omitempty"`
	// ConfigError says why the wanted configuration (ConfigErrorHash) was not applied; the one before stays.
	ConfigError     string `json:"configError,omitempty"`
	ConfigErrorHash string `json:"configErrorHash,omitempty"`
	// ServerTLS is what of a person's own the instance has for TLS; nil: the agent doesn't know of such.
	ServerTLS *ServerTLSStatus `json:"serverTLS,omitempty"`
	// Tuned are the parameters that follow from the sizes of the pod and its volume and from the instances.
	Tuned map[string]string `json:"tuned,omitempty"`
	// PendingRestart names parameters whose new value waits for a restart.
	PendingRestart []string `json:"pendingRestart,omitempty"`
	// Message for a person, when something is wrong.
	Message string `json:"message,omitempty"`
	// Closed says why a primary refuses clients, although it runs; empty: it doesn't.
	Closed string `json:"closed,omitempty"`
	// Archive, where there is one.
	Archive *ArchiveStatus `json:"archive,omitempty"`
	// Maintenance that still runs after a restore or a major upgrade: Extensions, Statistics.
	Maintenance []string `json:"maintenance,omitempty"`
	// MaintenanceMessages tell of what could not be done there.
	MaintenanceMessages []string `json:"maintenanceMessages,omitempty"`
	// Declared roles and databases, on a primary that has seen to them.
	Declared *DeclaredStatus `json:"declared,omitempty"`
	// Slots that are declared, on a primary that has looked at them.
	Slots *SlotsStatus `json:"slots,omitempty"`
	// Election, where there is more than one instance.
	Election *ElectionStatus `json:"election,omitempty"`
	// Replication of a replica.
	Replication *ReplicationStatus `json:"replication,omitempty"`
	// Rejoin says how a replica is being made fit to follow, while it is.
	Rejoin *RejoinStatus `json:"rejoin,omitempty"`
	// HeldBack says in a sentence what would be done if repairs were not paused; empty: nothing.
	HeldBack string `json:"heldBack,omitempty"`
	// Reinit is the last clone that was requested of this instance.
	Reinit *ReinitStatus `json:"reinit,omitempty"`
	// Fault is the last one that was caused for a failover drill.
	Fault *FaultStatus `json:"fault,omitempty"`
	// Findings of a primary; nil: it has not looked yet.
	Findings *Findings `json:"findings,omitempty"`
	// Usage of CPU and memory by the container; nil: it is not known yet.
	Usage *Usage `json:"usage,omitempty"`
	// Sessions of clients, on a replica; nil: they are not known yet.
	Sessions *Sessions `json:"sessions,omitempty"`
	// Checks are the deep ones of this instance; nil: none has ended yet.
	Checks *Checks `json:"checks,omitempty"`
	// Adoption is the last one that the volume was told of.
	Adoption *Adoption `json:"adoption,omitempty"`
	// Copies of data generations that are whole on the volume, as of when the agent took in its configuration or removed one of them; none: not known.
	Copies []Copy `json:"copies,omitempty"`
	// Volume of the instance, with its data.
	Volume *VolumeStatus `json:"volume,omitempty"`
	// WALVolume of the instance; nil: its WAL is on Volume.
	WALVolume *VolumeStatus `json:"walVolume,omitempty"`
	// Disk of the volume; nil: not looked at yet.
	Disk *DiskStatus `json:"disk,omitempty"`
	// StartedAt is when PostgreSQL was started last.
	StartedAt time.Time `json:"startedAt,omitzero"`
}

// Adoption is which data the cluster runs on, as a volume was told last.
type Adoption struct {
	// Number counts them.
	Number         int64  `json:"number"`
	DataGeneration string `json:"dataGeneration"`
	// Whole: the volume has a copy of it that a server may be started on. What follows describes that, as of when the
	// agent was told of its configuration.
	Whole            bool   `json:"whole,omitempty"`
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	MajorVersion     int    `json:"majorVersion,omitempty"`
	Timeline         int64  `json:"timeline,omitempty"`
	Checkpoint       uint64 `json:"checkpoint,omitempty"`
}

// State of PostgreSQL as its supervisor sees it.
type State string

const (
	// StateStarting: starting or replaying WAL, not accepting connections yet.
	StateStarting State = "Starting"
	// StateRunning: accepting connections.
	StateRunning State = "Running"
	// StateStopping: being stopped.
	StateStopping State = "Stopping"
	// StateStopped: not running; the agent will start it again unless it says why not in Message.
	StateStopped State = "Stopped"
	// StateFailed: can't be started; Message says why.
	StateFailed State = "Failed"
)

// ArchiveStatus is the health of the archive.
type ArchiveStatus struct {
	LastWAL      string    `json:"lastWAL,omitempty"`
	LastTime     time.Time `json:"lastTime,omitzero"`
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Error of the last try while failing, one sentence.
	Error string `json:"error,omitempty"`
	// LastFailure of a try, which may have passed since, and when it was.
	LastFailure     string    `json:"lastFailure,omitempty"`
	LastFailureTime time.Time `json:"lastFailureTime,omitzero"`
	// Waiting files, and since when the first segment among them does.
	Waiting      int       `json:"waiting,omitempty"`
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	// CompleteUntil: all that was committed until then is archived.
	CompleteUntil time.Time `json:"completeUntil,omitzero"`
	// RPOSeconds estimates for how long what was committed is on the volumes only.
	RPOSeconds float64 `json:"rpoSeconds,omitempty"`
	// Damaged is the last damage that was found in a segment while it was archived.
	Damaged *DamagedWAL `json:"damaged,omitempty"`
}

// DamagedWAL is a record of WAL whose checksum is wrong although the server has completed its segment.
type DamagedWAL struct {
	Segment string    `json:"segment"`
	LSN     string    `json:"lsn"` // where the record begins
	Time    time.Time `json:"time"`
}

// RestartRequest asks for a restart of PostgreSQL in place. It is a no-op unless parameters wait for a restart under
// the configuration with this hash.
type RestartRequest struct {
	ConfigHash string `json:"configHash"`
}
