package agentapi

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// InitJob is job.json of an init Job: `agent init`. The first database and role are made by the running agent.
type InitJob struct {
	DataGeneration string `json:"dataGeneration"`
	MajorVersion   int    `json:"majorVersion"`
	Initdb         Initdb `json:"initdb,omitzero"`
	// SQL runs in Database as Owner, which are made for it.
	SQL      []SQLFile `json:"sql,omitempty"`
	Database string    `json:"database,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	// Import says what is taken from another server; nil: nothing.
	Import *ImportJob `json:"import,omitempty"`
	// Clone says which cluster the data is copied from; nil: from none.
	Clone *CloneJob `json:"clone,omitempty"`
	// Standby says which archive the data follows until it is promoted; nil: none.
	Standby *StandbyJob `json:"standby,omitempty"`
}

// SQLFile is a key of a ConfigMap, which is mounted at SQLDir in a folder of its number.
type SQLFile struct {
	ConfigMap string `json:"configMap"`
	Key       string `json:"key"`
}

// SQLPath is where a Job has a file of SQL.
func SQLPath(number int, file SQLFile) string {
	return filepath.Join(SQLDir, strconv.Itoa(number), file.Key)
}

// Initdb is what a data directory has for good. What is empty is left to the agent.
type Initdb struct {
	Encoding string `json:"encoding,omitempty"`
	// LocaleProvider is builtin, icu or libc, as initdb has it; Locale is in its words.
	LocaleProvider string `json:"localeProvider,omitempty"`
	Locale         string `json:"locale,omitempty"`
	ICURules       string `json:"icuRules,omitempty"`
	WALSegmentMiB  int64  `json:"walSegmentMiB,omitempty"`
}

// DataFormat is what programs of PostgreSQL must have been built for to run on a data directory, as pg_control has it.
type DataFormat struct {
	ControlVersion int    `json:"controlVersion"`
	CatalogVersion int    `json:"catalogVersion"`
	PageSize       int    `json:"pageSize"`
	RelSegBlocks   uint32 `json:"relSegBlocks"`
}

// ImageJob is job.json of a Job that tries an image before an instance runs in it: `agent image`. It has no volume.
type ImageJob struct {
	MajorVersion int `json:"majorVersion"`
	// Format of the data of the cluster; nil: it is not known.
	Format *DataFormat `json:"format,omitempty"`
	// PreloadLibraries is shared_preload_libraries of the cluster.
	PreloadLibraries string `json:"preloadLibraries,omitempty"`
	// NotBelow is the release that runs, such as 17.6, of an image that nobody has named: one with an older release is refused.
	NotBelow string `json:"notBelow,omitempty"`
}

// ImageResult is what a Job that tried an image has found.
type ImageResult struct {
	Version string `json:"version"`
}

// KindConfigMap is the kind of an Object that is a ConfigMap.
const KindConfigMap = "ConfigMap"

// Object is the custom resource that a Job works for; it patches this object's status.progress.
type Object struct {
	Kind      string `json:"kind"`
	Resource  string `json:"resource"` // plural, such as backups
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// BackupJob is job.json of a backup Job: `agent backup`. The volume of the instance is mounted read-only at VolumeDir,
// the connection at ConnectionDir, the client certificate of BackupRole at ClientTLSDir.
type BackupJob struct {
	Object     Object          `json:"object"`
	Repository objstore.Config `json:"repository"`
	BackupID   string          `json:"backupID"`
	Lineage    string          `json:"lineage"`
	// Parent is the id of the backup to build on; empty makes a full one.
	Parent string `json:"parent,omitempty"`
	// Compression is Balanced, Fast or Small; empty is Balanced.
	Compression string `json:"compression,omitempty"`
	// MaxBytesPerSecond bounds what is read from the volume; 0 is no bound.
	MaxBytesPerSecond int64 `json:"maxBytesPerSecond,omitempty"`
	// ReportDamage takes the backup although pages fail their checksum, and lists them.
	ReportDamage bool `json:"reportDamage,omitempty"`
	// Cluster, Namespace and ClusterUID say whose backup it is.
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID"`
	// DataGeneration that the instance must be running on.
	DataGeneration string `json:"dataGeneration"`
	// ClusterSpec is the spec of the PostgresCluster, kept in the manifest.
	ClusterSpec json.RawMessage `json:"clusterSpec"`
	// Secrets with the cluster's logins, mounted below SecretsDir and kept in the manifest; none unless the repository is
	// encrypted.
	Secrets []KeptSecret `json:"secrets,omitempty"`
	// Image that runs the cluster, kept in the manifest.
	Image string `json:"image"`
	// Host is the name of the instance to connect to in its certificate, and Address where it is: no DNS is asked.
	Host    string `json:"host"`
	Address string `json:"address"`
	// MemoryLimit of the buffers, in bytes.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
}

// KeptSecret is a Secret that goes into a backup.
type KeptSecret struct {
	// Purpose: Application, Superuser or Role.
	Purpose string `json:"purpose"`
	Name    string `json:"name"`
}

// BackupResult is what a backup Job has done.
type BackupResult struct {
	Version      string    `json:"version"`
	StartLSN     string    `json:"startLSN"`
	StopLSN      string    `json:"stopLSN"`
	StopTime     time.Time `json:"stopTime"`
	LogicalBytes int64     `json:"logicalBytes"`
	CopiedBytes  int64     `json:"copiedBytes"` // of LogicalBytes; the rest is in older backups
	StoredBytes  int64     `json:"storedBytes"`
	// Incremental: it builds on Parent. Why says why it doesn't although it should.
	Incremental bool   `json:"incremental,omitempty"`
	Parent      string `json:"parent,omitempty"`
	Why         string `json:"why,omitempty"`
	// DamagedPages is how many pages failed their checksum; Damaged has the first of them.
	DamagedPages int           `json:"damagedPages,omitempty"`
	Damaged      []DamagedPage `json:"damaged,omitempty"`
	// Locked is until when the object lock of the bucket keeps all of the backup; nil: it has none, or does not say.
	Locked *Locked `json:"locked,omitempty"`
}

// Locked is until when an object lock keeps something, and the object whose lock ends first.
type Locked struct {
	Until  time.Time `json:"until"`
	Object string    `json:"object"`
}

// MaxDamaged is how many damaged pages a BackupResult lists, which has to fit into a termination message.
const MaxDamaged = 10

// DamagedPage is a page that fails its checksum.
type DamagedPage struct {
	File  string `json:"file"`
	Block uint32 `json:"block"`
}

// RestoreJob is job.json of a restore Job: `agent restore`, in the PostgreSQL image of the plan, with the locked volume at
// VolumeDir.
type RestoreJob struct {
	Object     Object          `json:"object"`
	Repository objstore.Config `json:"repository"`
	Lineage    string          `json:"lineage"`
	BackupID   string          `json:"backupID"`
	// DataGeneration to write.
	DataGeneration string        `json:"dataGeneration"`
	MajorVersion   int           `json:"majorVersion"`
	Target         RestoreTarget `json:"target"`
	// Timeline that recovery follows.
	Timeline int64 `json:"timeline"`
	// LastWAL is the last segment that may be replayed, whatever is archived after it meanwhile.
	LastWAL string `json:"lastWAL"`
	// MemoryLimit of the buffers, in bytes.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
	// InPlace: the volume is that of a cluster that has run, and keeps its data.
	InPlace bool `json:"inPlace,omitempty"`
	// DiscardPrevious is the data generation whose data is changed where it is, and becomes DataGeneration, once it is known that
	// all that the restore needs can be read. Empty: it stays as it is.
	DiscardPrevious string `json:"discardPrevious,omitempty"`
	// PreviousArchive is the archive of the data of DiscardPrevious, if that is in Repository: what only the volume has goes there
	// before anything is discarded. Nil: it is elsewhere, so the data is discarded only if all of it is archived.
	PreviousArchive *PreviousArchive `json:"previousArchive,omitempty"`
	// DisableSubscriptions: the data becomes another cluster's, and must not take what is for the first one; or it is in an earlier state than its slots
	// at the publishers, which would skip what came between.
	DisableSubscriptions bool `json:"disableSubscriptions,omitempty"`
	// LostSlots are logical slots, by name, that clients may have read from beyond the restored data. Whether that knows of them or not, they are not
	// created by themselves.
	LostSlots []string `json:"lostSlots,omitempty"`
	// PreloadLibraries is shared_preload_libraries of the cluster, without which PostgreSQL may not understand all of its WAL.
	PreloadLibraries string `json:"preloadLibraries,omitempty"`
}

// PreviousArchive is where the data that a RestoreJob discards was archived to.
type PreviousArchive struct {
	// ClusterUID is who must have claimed the lineage.
	ClusterUID string `json:"clusterUID"`
	// SafetyBackup is the id of the backup from which on all WAL must be archived.
	SafetyBackup string `json:"safetyBackup"`
}

// RestoreTarget is a point; all empty is the end of the archive.
type RestoreTarget struct {
	Time         *time.Time `json:"time,omitempty"`
	LSN          string     `json:"lsn,omitempty"`
	RestorePoint string     `json:"restorePoint,omitempty"`
	XID          int64      `json:"xid,omitempty"`
	// Immediate: at the end of the backup.
	Immediate bool `json:"immediate,omitempty"`
	// Inclusive: what is at the target itself is restored. Nil: it is, but for the record at LSN.
	Inclusive *bool `json:"inclusive,omitempty"`
}

// End says that everything shall be replayed.
func (t RestoreTarget) End() bool {
	return t.Time == nil && t.LSN == "" && t.RestorePoint == "" && t.XID == 0 && !t.Immediate
}

// RestoreResult is what a restore Job has done.
type RestoreResult struct {
	DataGeneration   string     `json:"dataGeneration"`
	SystemIdentifier string     `json:"systemIdentifier"`
	MajorVersion     int        `json:"majorVersion"`
	ReachedLSN       string     `json:"reachedLSN"`
	LastCommit       *time.Time `json:"lastCommit,omitempty"`
	Timeline         int64      `json:"timeline"`
	// FetchSeconds and ReplaySeconds are how long the two took.
	FetchSeconds  int64 `json:"fetchSeconds,omitempty"`
	ReplaySeconds int64 `json:"replaySeconds,omitempty"`
	// TakenBytes of the backup were not fetched, because the previous data still held them.
	TakenBytes int64 `json:"takenBytes,omitempty"`
	// DisabledSubscriptions as database.subscription, the first of them.
	DisabledSubscriptions []string `json:"disabledSubscriptions,omitempty"`
	// DroppedSettings are the parameters that were removed from postgresql.auto.conf, the first of them.
	DroppedSettings []string `json:"droppedSettings,omitempty"`
}

// UpgradeJob is job.json of both upgrade Jobs, in the new PostgreSQL image, with the old image's root at OldImageDir.
// `agent upgrade check` connects to the running cluster (ConnectionDir, ClientTLSDir of UpgradeRole) and works on a copy
// of its schema in the pod's own scratch space; `agent upgrade run` works on the locked volume at VolumeDir. `agent upgrade inspect`, in the old
// image, only reads that.
type UpgradeJob struct {
	Object         Object `json:"object"`
	FromVersion    int    `json:"fromVersion"`
	ToVersion      int    `json:"toVersion"`
	FromGeneration string `json:"fromGeneration"`
	ToGeneration   string `json:"toGeneration"`
	// PreloadLibraries is shared_preload_libraries of the cluster, without which some extensions can't be created.
	PreloadLibraries string `json:"preloadLibraries,omitempty"`
	// OutputPlugins is output_plugin_libraries of the cluster, without which logical slots can't be carried over; empty: it isn't set.
	OutputPlugins string `json:"outputPlugins,omitempty"`
	// Parameters of the cluster, which the new version has to accept, for the check.
	Parameters map[string]string `json:"parameters,omitempty"`
	// DropLogicalSlots: that they are lost is no obstacle, for the check.
	DropLogicalSlots bool `json:"dropLogicalSlots,omitempty"`
	// Host that leads to the primary, for the check.
	Host string `json:"host,omitempty"`
	// Link has files of the old data linked instead of copied, after which it can't be run here any more. The old data has to end there,
	// as a replica's has that is the way back. Nil: they are copied.
	Link *WALEnd `json:"link,omitempty"`
}

// WALEnd is where the WAL of a primary ends that was shut down in order: the last checkpoint in its control file, and in that of each
// replica that has everything.
type WALEnd struct {
	SystemIdentifier string `json:"systemIdentifier"`
	Timeline         uint32 `json:"timeline"`
	Checkpoint       string `json:"checkpoint"` // LSN
}

// UpgradeInspection is what `agent upgrade inspect` has found on one volume of a cluster that is stopped.
type UpgradeInspection struct {
	WALEnd
	// MajorVersion of the data.
	MajorVersion int `json:"majorVersion"`
	// Primary: the data was shut down in order by a primary. Replica: by a replica. Neither: it was not.
	Primary bool `json:"primary,omitempty"`
	Replica bool `json:"replica,omitempty"`
	// State is that of the control file, for a person.
	State string `json:"state"`
	// Bytes that the data takes on the volume.
	Bytes int64 `json:"bytes,omitempty"`
}

// UpgradeCheckResult is what the check has found.
type UpgradeCheckResult struct {
	Findings []Finding `json:"findings"`
	// CopyBytes is how much space a copy of all data needs.
	CopyBytes int64 `json:"copyBytes,omitempty"`
}

// Finding of an upgrade check.
type Finding struct {
	Severity string `json:"severity"` // Error or Warning
	Check    string `json:"check"`
	Database string `json:"database,omitempty"`
	Message  string `json:"message"`
}

// UpgradeResult is what an upgrade Job has done.
type UpgradeResult struct {
	DataGeneration   string `json:"dataGeneration"`
	SystemIdentifier string `json:"systemIdentifier"`
	MajorVersion     int    `json:"majorVersion"`
	// PreviousBytes that the old data takes on the volume.
	PreviousBytes int64 `json:"previousBytes,omitempty"`
}

// Outcome is the termination message of every Job's pod, at most 4096 bytes of JSON: either Result or Error.
type Outcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *JobError       `json:"error,omitempty"`
}

// JobError says why a Job's pod failed.
type JobError struct {
	// Reason is a condition reason, such as DataCorrupt or TargetUnreachable.
	Reason string `json:"reason"`
	// Message is a sentence for a person.
	Message string `json:"message"`
	// Final: trying again won't help.
	Final bool `json:"final,omitempty"`
	// NeedsMemory is the limit that the pod would need to do its work, in bytes; 0: that is not what it lacks.
	NeedsMemory int64 `json:"needsMemory,omitempty"`
}

// ExitFinal is the exit status of a pod whose error is final; the Job's podFailurePolicy fails the Job on it at once.
const ExitFinal = 3

// InspectionJob is job.json of a Job that looks at a volume before anything is started on it: `agent inspect`. The volume is mounted
// read-only at VolumeDir.
type InspectionJob struct {
	// Identity of the cluster whose volume it is.
	Identity string `json:"identity"`
	// DataGeneration to look for, if the volume was told of none.
	DataGeneration string `json:"dataGeneration"`
	// MajorVersion of the programs that read it.
	MajorVersion int `json:"majorVersion"`
}

// VolumeInspection is what `agent inspect` has found on a volume.
type VolumeInspection struct {
	// DataGeneration that the volume belongs to, and the number of its adoption.
	DataGeneration string `json:"dataGeneration"`
	Adoptions      int64  `json:"adoptions,omitempty"`
	// Unusable says in a sentence why no server can be started on that; empty: one can.
	Unusable string `json:"unusable,omitempty"`
	// SystemIdentifier and MajorVersion of the data. What follows is known only where the programs are of that version.
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	MajorVersion     int    `json:"majorVersion,omitempty"`
	// State is that of the control file, for a person.
	State string `json:"state,omitempty"`
	// Primary: the last server on the data was a primary.
	Primary bool `json:"primary,omitempty"`
	// Timeline is the latest that the volume knows of.
	Timeline int64 `json:"timeline,omitempty"`
	// Position that it has reached at least.
	Position VolumePosition `json:"position,omitzero"`
}

// VolumePosition is a place in the WAL.
type VolumePosition struct {
	Timeline int64  `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

// Before says whether a position comes before another one.
func (p VolumePosition) Before(other VolumePosition) bool {
	return p.Timeline < other.Timeline || p.Timeline == other.Timeline && p.LSN < other.LSN
}
