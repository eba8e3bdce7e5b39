package v1alpha1

// Conditions and reasons of a PostgresCluster. Written by the db-controller; read by backups (Ready), restores and
// upgrades (Ready, after a Handover).
const (
	// ConditionUpToDate says whether what runs is what spec asks for.
	ConditionUpToDate = "UpToDate"
	// ConditionReplicated says whether every replica follows and could take over. A single instance has none.
	ConditionReplicated = "Replicated"
	// ConditionArchiving says whether WAL reaches the repository.
	ConditionArchiving = "Archiving"
	// ConditionStorageHealthy says whether the volumes have space left.
	ConditionStorageHealthy = "StorageHealthy"
	// ConditionRolesAndDatabasesReady says whether spec.roles and spec.databases are as they are written. Without any there
	// is none.
	ConditionRolesAndDatabasesReady = "RolesAndDatabasesReady"

	// ReasonRunning (see Backup): the cluster takes connections.

	// ReasonInitializing: the init Job runs.
	ReasonInitializing = "Initializing"
	// ReasonAwaitingRestore: the volume waits for the data of its Restore.
	ReasonAwaitingRestore = "AwaitingRestore"
	// ReasonStarting: PostgreSQL is starting or recovering.
	ReasonStarting = "Starting"
	// ReasonRestarting: PostgreSQL is being restarted, and the message says why.
	ReasonRestarting = "Restarting"
	// ReasonVolumesLocked: a Restore or an Upgrade has the volumes.
	ReasonVolumesLocked = "VolumesLocked"
	// ReasonUnavailable: the primary doesn't take connections.
	ReasonUnavailable = "Unavailable"
	// ReasonInitFailed: the init Job has failed for good.
	ReasonInitFailed = "InitFailed"
	// ReasonAwaitingFinalBackup: the cluster is being deleted and waits for its last backup.
	ReasonAwaitingFinalBackup = "AwaitingFinalBackup"
	// ReasonNameConflict: an object of a name that the cluster needs belongs to somebody else.
	ReasonNameConflict = "NameConflict"
	// ReasonUnschedulable: no node takes the pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImageUnavailable: an image can't be pulled.
	ReasonImageUnavailable = "ImageUnavailable"

	// ReasonHibernated: all instances are stopped, as spec.hibernate asks.
	ReasonHibernated = "Hibernated"
	// ReasonElecting: there is no primary, and the agents have yet to agree on one.
	ReasonElecting = "Electing"

	// ReasonCurrent: what runs is what spec asks for.
	ReasonCurrent = "Current"
	// ReasonVersionPending: spec.version is higher than what runs; an Upgrade gets there.
	ReasonVersionPending = "VersionPending"
	// ReasonVersionBehind: spec.version is lower than what runs, and is not acted on.
	ReasonVersionBehind = "VersionBehind"
	// ReasonRestartPending: a change waits for a restart.
	ReasonRestartPending = "RestartPending"
	// ReasonConfigurationInvalid: PostgreSQL doesn't accept a parameter; the old configuration stays.
	ReasonConfigurationInvalid = "ConfigurationInvalid"
	// ReasonApplying: a change is on its way.
	ReasonApplying = "Applying"
	// ReasonInvalidWindow: spec.maintenanceWindow can't be understood, so nothing is restarted.
	ReasonInvalidWindow = "InvalidWindow"
	// ReasonScaling: instances are being added or taken away.
	ReasonScaling = "Scaling"
	// ReasonSwitchingOver: another instance is becoming primary.
	ReasonSwitchingOver = "SwitchingOver"

	// ReasonFollowing: every replica follows the primary and could take over.
	ReasonFollowing = "Following"
	// ReasonCommitsWaiting: synchronous commits wait for replicas that are not there.
	ReasonCommitsWaiting = "CommitsWaiting"
	// ReasonReplicaDown: a replica doesn't run or doesn't follow.
	ReasonReplicaDown = "ReplicaDown"
	// ReasonCloning: a replica is being made as a copy of the primary.
	ReasonCloning = "Cloning"
	// ReasonRewinding: a former primary gives up what the new one doesn't have.
	ReasonRewinding = "Rewinding"
	// ReasonLagging: a replica is further behind than spec.maxLagOnFailover.
	ReasonLagging = "Lagging"
	// ReasonJoining: a replica follows, and the primary has yet to count it among those that may take over.
	ReasonJoining = "Joining"

	// ReasonNotAsDeclared: a role, a database or an extension can't be made what spec says.
	ReasonNotAsDeclared = "NotAsDeclared"

	// ReasonArchived: WAL is being archived.
	ReasonArchived = "Archived"
	// ReasonArchiveFailing: WAL can't be pushed; it stays on the volume until it can.
	ReasonArchiveFailing = "ArchiveFailing"
	// ReasonArchiveBehind: WAL waits for minutes though no push fails; the archive is slower than the writers.
	ReasonArchiveBehind = "ArchiveBehind"
	// ReasonNotConfigured: there is no spec.archive.
	ReasonNotConfigured = "NotConfigured"

	// ReasonEnoughSpace: all volumes have space left.
	ReasonEnoughSpace = "EnoughSpace"
	// ReasonAlmostFull: a volume is nearly full.
	ReasonAlmostFull = "AlmostFull"
	// ReasonDiskFull: a volume is full; if it is the primary's, clients may only read until there is space.
	ReasonDiskFull = "DiskFull"
	// ReasonSpaceUnknown: no agent has said yet how full its volume is.
	ReasonSpaceUnknown = "SpaceUnknown"
	// ReasonVolumesGrowing: volumes are on their way to the size that is wanted.
	ReasonVolumesGrowing = "VolumesGrowing"
	// ReasonExpansionNotAllowed: the StorageClass doesn't let volumes grow.
	ReasonExpansionNotAllowed = "ExpansionNotAllowed"
	// ReasonExpansionFailed: Kubernetes or the storage refuses to let a volume grow.
	ReasonExpansionFailed = "ExpansionFailed"
)
