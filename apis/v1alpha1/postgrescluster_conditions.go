package v1alpha1

// Conditions and reasons of a PostgresCluster. Written by the db-controller; read by backups (Ready), restores and
// upgrades (Ready, after a Handover).
const (
	// ConditionUpToDate says whether what runs matches spec.
	ConditionUpToDate = "UpToDate"
	// ConditionReplicated says whether every replica follows and could take over. A single instance does not have it.
	ConditionReplicated = "Replicated"
	// ConditionAutomaticFailover says whether another instance takes over when the primary fails. A cluster without spec.failover
	// does not have it.
	ConditionAutomaticFailover = "AutomaticFailover"
	// ConditionAutomaticRepair: the agents restart, rewind and clone instances by themselves. It exists only if spec.repair has a pause.
	ConditionAutomaticRepair = "AutomaticRepair"
	// ConditionLogicalSlotsSynchronized says whether clients of logical replication continue after a failover. Only a cluster with
	// wal_level=logical and more than one instance has it.
	ConditionLogicalSlotsSynchronized = "LogicalSlotsSynchronized"
	// ConditionArchiving says whether WAL reaches the repository.
	ConditionArchiving = "Archiving"
	// ConditionStorageHealthy says whether the volumes have enough space left.
	ConditionStorageHealthy = "StorageHealthy"
	// ConditionRolesAndDatabasesReady says whether roles and databases are as spec.roles and spec.databases declare them. A
	// cluster that declares none does not have it.
	ConditionRolesAndDatabasesReady = "RolesAndDatabasesReady"
	// ConditionReplicationSlotsReady says whether the slots in spec.replicationSlots are there for their clients. A cluster that
	// declares none does not have it.
	ConditionReplicationSlotsReady = "ReplicationSlotsReady"
	// ConditionMaintained says whether extensions and statistics are up to date after a restore or a major upgrade, and indexes after a
	// change of collations. A cluster that never had such work does not have it.
	ConditionMaintained = "Maintained"
	// ConditionMonitoringReady says whether queries for metrics and the PodMonitor are as spec.monitoring wants them. A cluster without
	// spec.monitoring does not have it.
	ConditionMonitoringReady = "MonitoringReady"
	// ConditionCertificatesReady says whether servers present the certificate of spec.tls.serverSecret, accept client certificates of the CAs of
	// spec.tls.clientCABundle, and trust the CAs of spec.postgresql.ldapCA for LDAP connections. A cluster without all of them does not have the
	// condition.
	ConditionCertificatesReady = "CertificatesReady"

	// ConditionFollowsSource says whether a standby replays what its source archives. A cluster that is not a standby, or was promoted, does
	// not have it.
	ConditionFollowsSource = "FollowsSource"
	// ConditionFirstBackupTaken says whether the lineage that began with the promotion of a standby has a backup. Only a cluster that was a
	// standby, and archives, has it.
	ConditionFirstBackupTaken = "FirstBackupTaken"

	// ReasonRunning (see Backup): the cluster accepts connections.

	// ReasonInitializing: the init Job runs.
	ReasonInitializing = "Initializing"
	// ReasonImporting: databases are imported from another server, and nothing is served yet.
	ReasonImporting = "Importing"
	// ReasonFollowingSource: an online import has copied everything, and follows the source until a person requests the cutover.
	ReasonFollowingSource = "FollowingSource"
	// ReasonCuttingOver: the cutover of an online import was requested, and the message says what it waits for.
	ReasonCuttingOver = "CuttingOver"
	// ReasonReleasingSource: what an online import has created on the source is dropped before the PostgresCluster is deleted.
	ReasonReleasingSource = "ReleasingSource"
	// ReasonCopyingCluster: the data of another cluster is copied, and nothing is served yet.
	ReasonCopyingCluster = "CopyingCluster"
	// ReasonRestoringBackup: a standby restores the backup that it begins with.
	ReasonRestoringBackup = "RestoringBackup"
	// ReasonFollowingArchive: a standby replays what its source archives, until it is promoted.
	ReasonFollowingArchive = "FollowingArchive"
	// ReasonPromoting: the promotion of a standby is recorded, and the message says what it waits for.
	ReasonPromoting = "Promoting"
	// ReasonNotFollowing: a standby can't replay now, for another reason than those below. The message says why.
	ReasonNotFollowing = "NotFollowing"
	// ReasonWALMissing: a segment that a standby needs is not in the archive, although later ones are.
	ReasonWALMissing = "WALMissing"
	// ReasonDiverged: a standby has replayed WAL that is not part of the history of its source any more.
	ReasonDiverged = "Diverged"
	// ReasonSourceMoved: the source of a standby archives to another lineage by now.
	ReasonSourceMoved = "SourceMoved"
	// ReasonReinitializing: a standby can't continue, or is to follow another lineage, and another copy is planned or made beside the data.
	ReasonReinitializing = "Reinitializing"
	// ReasonAwaitingSource: the cluster that is to be cloned can't be read yet.
	ReasonAwaitingSource = "AwaitingSource"
	// ReasonSourceMismatch: the cluster that is to be cloned has another version, or an image or extensions that this one lacks.
	ReasonSourceMismatch = "SourceMismatch"
	// ReasonSourceLost: the cluster that was being cloned was deleted before the copy was complete.
	ReasonSourceLost = "SourceLost"
	// ReasonAwaitingRestore: the volume waits for the data of its Restore.
	ReasonAwaitingRestore = "AwaitingRestore"
	// ReasonStarting: PostgreSQL is starting or recovering.
	ReasonStarting = "Starting"
	// ReasonRestarting: PostgreSQL is being restarted, and the message says why.
	ReasonRestarting = "Restarting"
	// ReasonVolumesLocked: a Restore or an Upgrade has the volumes.
	ReasonVolumesLocked = "VolumesLocked"
	// ReasonUnavailable: the primary does not accept connections.
	ReasonUnavailable = "Unavailable"
	// ReasonInitFailed: the init Job has failed for good.
	ReasonInitFailed = "InitFailed"
	// ReasonAwaitingFinalBackup: the cluster is being deleted and waits for its final backup.
	ReasonAwaitingFinalBackup = "AwaitingFinalBackup"
	// ReasonAwaitingFirstBackup: a standby was promoted, and the backup of its lineage isn't complete.
	ReasonAwaitingFirstBackup = "AwaitingFirstBackup"
	// ReasonAwaitingRelease: the cluster is being deleted, and its database can't be released yet.
	ReasonAwaitingRelease = "AwaitingRelease"
	// ReasonInspectingVolumes: the volumes that spec.bootstrap.volumes speaks of are looked at, and nobody is served yet.
	ReasonInspectingVolumes = "InspectingVolumes"
	// ReasonVolumesRefused: the volumes that spec.bootstrap.volumes speaks of are not what they should be, and nothing of them was changed.
	ReasonVolumesRefused = "VolumesRefused"
	// ReasonTakingOver: the cluster takes over a database that was released, or the volumes of one that was deleted.
	ReasonTakingOver = "TakingOver"
	// ReasonTakeoverRefused: a database that was released under the name of the cluster can't be taken over as spec has it.
	ReasonTakeoverRefused = "TakeoverRefused"
	// ReasonNameConflict: an object that the cluster needs exists and belongs to somebody else.
	ReasonNameConflict = "NameConflict"
	// ReasonSecretReserved: spec.pods has a Secret of the cluster itself.
	ReasonSecretReserved = "SecretReserved"
	// ReasonStatusOutdated: the volumes have seen a later adoption of data than the status, which comes from a backup of etcd.
	ReasonStatusOutdated = "StatusOutdated"
	// ReasonUnschedulable: no node can run the pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPodRefused: Kubernetes refuses to create a pod, or the Job of one, because of a quota or a policy of the namespace.
	ReasonPodRefused = "PodRefused"
	// ReasonAgentUnreachable: the agent of a pod that runs has not answered the db-controller for a minute.
	ReasonAgentUnreachable = "AgentUnreachable"
	// ReasonImageVolumesUnsupported: spec names images of extensions, and the nodes are not known to be able to mount images.
	ReasonImageVolumesUnsupported = "ImageVolumesUnsupported"
	// ReasonImageUnavailable: an image can't be pulled.
	ReasonImageUnavailable = "ImageUnavailable"

	// ReasonHibernated: all instances are stopped, as spec.hibernate requests.
	ReasonHibernated = "Hibernated"
	// ReasonElecting: there is no primary, and the agents have yet to agree on one.
	ReasonElecting = "Electing"

	// ReasonCurrent: what runs matches spec.
	ReasonCurrent = "Current"
	// ReasonVersionPending: spec.version is higher than what runs; an Upgrade is needed.
	ReasonVersionPending = "VersionPending"
	// ReasonVersionBehind: spec.version is lower than what runs, and is not acted on.
	ReasonVersionBehind = "VersionBehind"
	// ReasonImageRefused: an image, of spec.image or of an automatic update, can't run the cluster, which stays on the previous one.
	ReasonImageRefused = "ImageRefused"
	// ReasonRestartPending: a change waits for a restart.
	ReasonRestartPending = "RestartPending"
	// ReasonConfigurationInvalid: PostgreSQL does not accept a parameter; the previous configuration stays in force.
	ReasonConfigurationInvalid = "ConfigurationInvalid"
	// ReasonApplying: a change is being applied.
	ReasonApplying = "Applying"
	// ReasonInvalidWindow: spec.maintenanceWindow or spec.updates.window is invalid, so nothing is restarted in it.
	ReasonInvalidWindow = "InvalidWindow"
	// ReasonScaling: instances are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonSwitchingOver: another instance is becoming primary.
	ReasonSwitchingOver = "SwitchingOver"

	// ReasonFollowing: every replica follows the primary and could take over.
	ReasonFollowing = "Following"
	// ReasonCommitsWaiting: synchronous commits wait for replicas that are missing, or clients do after a crash of the primary.
	ReasonCommitsWaiting = "CommitsWaiting"
	// ReasonDurabilityReduced: the replicas of replaced data are being built, and commits don't wait for all of them meanwhile.
	ReasonDurabilityReduced = "DurabilityReduced"
	// ReasonReplicaDown: a replica does not run or does not follow.
	ReasonReplicaDown = "ReplicaDown"
	// ReasonCloning: a replica is being created as a copy of the primary.
	ReasonCloning = "Cloning"
	// ReasonRewinding: a former primary reverts what the new one does not have.
	ReasonRewinding = "Rewinding"
	// ReasonLagging: a replica lags further than spec.maxLagOnFailover.
	ReasonLagging = "Lagging"
	// ReasonJoining: a replica follows, and the primary has yet to make it a member.
	ReasonJoining = "Joining"

	// ReasonFenced: PostgreSQL of an instance is stopped because spec.failover.fenced names it.
	ReasonFenced = "Fenced"
	// ReasonEnabled: another instance takes over when the primary fails, and logical slots go with it.
	ReasonEnabled = "Enabled"
	// ReasonPaused: no instance takes over until spec.failover.pausedUntil.
	ReasonPaused = "Paused"

	// ReasonVersionTooLow: PostgreSQL's version can't do what is asked for.
	ReasonVersionTooLow = "VersionTooLow"
	// ReasonParameterOff: a parameter in spec switches off what is asked for elsewhere.
	ReasonParameterOff = "ParameterOff"

	// ReasonPasswordMissing: a Secret that has a password in spec lacks the key, or has nothing under it.
	ReasonPasswordMissing = "PasswordMissing"
	// ReasonPasswordRefused: a password can't be used for what it is for.
	ReasonPasswordRefused = "PasswordRefused"
	// ReasonConfigMapNotFound: a ConfigMap that spec names does not exist, or lacks a key.
	ReasonConfigMapNotFound = "ConfigMapNotFound"
	// ReasonCertificateRefused: a certificate of one's own can't be used. The servers continue with the previous one.
	ReasonCertificateRefused = "CertificateRefused"

	// ReasonSlotLost: a declared replication slot was lost, and its client has to begin anew.
	ReasonSlotLost = "SlotLost"
	// ReasonNotAsDeclared: a role, a database, an extension or a replication slot can't be brought to what spec declares.
	ReasonNotAsDeclared = "NotAsDeclared"

	// ReasonMaintaining: extensions, statistics or indexes are being brought up to date.
	ReasonMaintaining = "Maintaining"
	// ReasonMaintenanceIncomplete: some extensions, statistics or indexes could not be brought up to date.
	ReasonMaintenanceIncomplete = "MaintenanceIncomplete"

	// ReasonQueriesRefused: a query for metrics is not served, because it is wrong or its ConfigMap is missing.
	ReasonQueriesRefused = "QueriesRefused"
	// ReasonPodMonitorsMissing: the Prometheus operator is not installed, so there can't be a PodMonitor.
	ReasonPodMonitorsMissing = "PodMonitorsMissing"

	// ReasonArchived: WAL is being archived.
	ReasonArchived = "Archived"
	// ReasonArchiveFailing: WAL can't be pushed; it stays on the volume until it can.
	ReasonArchiveFailing = "ArchiveFailing"
	// ReasonDamagedWAL: WAL is being archived, and during the last day some of it was damaged.
	ReasonDamagedWAL = "DamagedWAL"
	// ReasonArchiveBehind: WAL has waited for minutes although no push fails; the archive is slower than the writers.
	ReasonArchiveBehind = "ArchiveBehind"
	// ReasonNotConfigured: spec.archive is not set.
	ReasonNotConfigured = "NotConfigured"

	// ReasonEnoughSpace: all volumes have enough space left.
	ReasonEnoughSpace = "EnoughSpace"
	// ReasonAlmostFull: a volume is nearly full.
	ReasonAlmostFull = "AlmostFull"
	// ReasonDiskFull: a volume is full; if it is the primary's, clients may only read until there is space.
	ReasonDiskFull = "DiskFull"
	// ReasonClaimDeleted: somebody has deleted the claim of a volume, which goes with its data as soon as its pod ends.
	ReasonClaimDeleted = "ClaimDeleted"
	// ReasonVolumeRetained: the event that a volume is kept after its instance or cluster was deleted; the message says why.
	ReasonVolumeRetained = "VolumeRetained"
	// ReasonClaimRefused: Kubernetes refuses the claim of an instance, for a quota, say. The other instances run without it.
	ReasonClaimRefused = "ClaimRefused"
	// ReasonDiskStalled: the disk of a volume does not respond. A primary hands over to a replica whose disk does.
	ReasonDiskStalled = "DiskStalled"
	// ReasonSpaceUnknown: no agent has reported yet how full its volume is.
	ReasonSpaceUnknown = "SpaceUnknown"
	// ReasonVolumesGrowing: volumes are growing to the desired size.
	ReasonVolumesGrowing = "VolumesGrowing"
	// ReasonStorageMovePlanned: a move to other volumes is planned, and waits for a person to approve it.
	ReasonStorageMovePlanned = "StorageMovePlanned"
	// ReasonStorageMoveRefused: a move to other volumes can't begin as things are, because the data doesn't fit, say.
	ReasonStorageMoveRefused = "StorageMoveRefused"
	// ReasonStorageMoving: the instances are moved to other volumes, one after the other.
	ReasonStorageMoving = "StorageMoving"
	// ReasonExpansionNotAllowed: the StorageClass does not let volumes grow.
	ReasonExpansionNotAllowed = "ExpansionNotAllowed"
	// ReasonExpansionFailed: Kubernetes or the storage refuses to let a volume grow.
	ReasonExpansionFailed = "ExpansionFailed"
)
