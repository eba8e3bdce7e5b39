package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Standby makes the cluster a standby of another one: it restores the newest backup of that one, and replays what it archives, until it is
// promoted. Until then, nobody can connect to it. It only reads the archive, and archives to spec.archive once it is promoted.
// +kubebuilder:validation:XValidation:rule="self.source.repository.name == oldSelf.source.repository.name && self.database == oldSelf.database && self.owner == oldSelf.owner",message="spec.standby.source.repository.name, database and owner can't be changed, because they say where the data came from: create a new PostgresCluster"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.source.repository.lineage) || has(self.source.repository.lineage)",message="spec.standby.source.repository.lineage can't be removed: leave it as it is, or name the lineage that the source archives to now"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.promote) || !has(self.source.repository.lineage) || (has(oldSelf.source.repository.lineage) && self.source.repository.lineage == oldSelf.source.repository.lineage)",message="spec.standby.source.repository.lineage can't be changed once a promotion was requested"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.promote) || (has(self.promote) && (self.promote == oldSelf.promote || self.promote == 'Immediately'))",message="spec.standby.promote can't be taken back, because the promotion may have begun: leave it as it is, or change EndOfArchive to Immediately"
type Standby struct {
	// Source is the cluster that is followed.
	Source StandbySource `json:"source"`
	// Database is the name of the application's database in that data.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['postgres','template0','template1'])",message="spec.standby.database is a name that PostgreSQL uses itself: name the database of the application, such as shop"
	Database string `json:"database,omitempty"`
	// Owner is the name of the application's role in that data. Once the cluster is promoted, it gets the password in Secret <name>-app; all
	// other roles keep theirs.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:Pattern=`^[a-z_][a-z0-9_]{0,62}$`
	// +kubebuilder:validation:XValidation:rule="self != 'postgres' && !self.startsWith('pg_') && !self.startsWith('howdah_')",message="spec.standby.owner is a name that PostgreSQL or Howdah uses itself; name the role that owns the application's database, such as app"
	Owner string `json:"owner,omitempty"`
	// Promote ends the recovery, and the cluster accepts connections. With EndOfArchive, everything in the archive is
	// replayed first; while the archive can't be read, the promotion waits. With Immediately, the cluster is promoted
	// with what it has replayed so far. A promotion can't be undone. Removing spec.standby does not promote the
	// cluster.
	// +optional
	Promote StandbyPromotion `json:"promote,omitempty"`
	// Reinit says whether a copy that can't continue (Diverged, WALMissing) may be replaced automatically. With FromNewerBackup, another copy is
	// restored beside it, from a backup of the same lineage that is newer than everything that was replayed. The current copy can be
	// promoted meanwhile, and is deleted only once the new one has replayed more. This is announced in status.standby.reinit ten minutes
	// before it begins, and begins once a day at most. Never stops it at any time.
	// +optional
	// +kubebuilder:default=Never
	Reinit StandbyReinitPolicy `json:"reinit,omitempty"`
}

// StandbyReinitPolicy says whether a copy that can't continue may be replaced automatically.
// +kubebuilder:validation:Enum=Never;FromNewerBackup
type StandbyReinitPolicy string

const (
	// StandbyReinitNever leaves the copy as it is.
	StandbyReinitNever StandbyReinitPolicy = "Never"
	// StandbyReinitFromNewerBackup replaces it where a backup is newer than everything that it has replayed.
	StandbyReinitFromNewerBackup StandbyReinitPolicy = "FromNewerBackup"
)

// StandbySource is where the archive of a cluster is.
type StandbySource struct {
	// Repository is the BackupRepository with the archive, in the namespace of this PostgresCluster. It may be read-only.
	Repository StandbyRepository `json:"repository"`
}

// StandbyRepository is a lineage in a repository.
type StandbyRepository struct {
	// Name of the BackupRepository.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Lineage to follow, such as 7412345678901234567-g0. By default, the one that was written last, if the repository is of one cluster only.
	// After a Restore in place of the source, name its new lineage here: a backup of that is restored beside the data, which is deleted once the
	// new copy is consistent. It can't be changed once a promotion was requested.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*$')",message="spec.standby.source.repository.lineage must name a lineage, such as 7412345678901234567-g0: status.contents of the BackupRepository lists them"
	Lineage string `json:"lineage,omitempty"`
}

// StandbyPromotion says how a standby is promoted.
// +kubebuilder:validation:Enum=EndOfArchive;Immediately
type StandbyPromotion string

const (
	// PromoteAtEndOfArchive replays all that the archive has first.
	PromoteAtEndOfArchive StandbyPromotion = "EndOfArchive"
	// PromoteImmediately asks the archive for nothing more.
	PromoteImmediately StandbyPromotion = "Immediately"
)

// StandbyStage is how far a standby is.
type StandbyStage string

const (
	// StandbyRestoring: a backup is being restored.
	StandbyRestoring StandbyStage = "Restoring"
	// StandbyFollowing: the archive is replayed.
	StandbyFollowing StandbyStage = "Following"
	// StandbyPromoting: the promotion is recorded on the volume, and will be completed whatever happens.
	StandbyPromoting StandbyStage = "Promoting"
)

// StandbyStatus is what is known of a standby. Before the promotion, its worker has said it.
type StandbyStatus struct {
	// Stage that the worker has recorded on the volume.
	// +optional
	Stage StandbyStage `json:"stage,omitempty"`
	// Lineage that is followed.
	// +optional
	Lineage string `json:"lineage,omitempty"`
	// Backup from which the data was restored, by its ID in the repository.
	// +optional
	Backup string `json:"backup,omitempty"`
	// ReplayedLSN is the position up to which WAL was replayed.
	// +optional
	ReplayedLSN string `json:"replayedLSN,omitempty"`
	// ReplayedTime of the last commit that was replayed.
	// +optional
	ReplayedTime *metav1.Time `json:"replayedTime,omitempty"`
	// Timeline that is followed.
	// +optional
	Timeline int64 `json:"timeline,omitempty"`
	// ArchivedLSN is the end of the whole segments in the archive.
	// +optional
	ArchivedLSN string `json:"archivedLSN,omitempty"`
	// ArchivedAt is when the newest of them was stored. The source archives nothing while nothing is written to it.
	// +optional
	ArchivedAt *metav1.Time `json:"archivedAt,omitempty"`
	// LagBytes is how much of that WAL is not replayed yet.
	// +optional
	LagBytes int64 `json:"lagBytes,omitempty"`
	// Problems keep the standby from following, or from its promotion.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Problems []StandbyProblem `json:"problems,omitempty"`
	// Progress of the backup that is being restored.
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// Reinit is another copy of the data that is planned, or made beside the current one.
	// +optional
	Reinit *StandbyReinit `json:"reinit,omitempty"`
	// ReinitializedAt is when a copy was replaced last.
	// +optional
	ReinitializedAt *metav1.Time `json:"reinitializedAt,omitempty"`
	// Promotion is what was requested. It is recorded before the worker is told.
	// +optional
	Promotion *StandbyPromotionRequest `json:"promotion,omitempty"`
	// PromotedAt is when the promotion was found to be complete. PostgreSQL has not accepted connections before.
	// +optional
	PromotedAt *metav1.Time `json:"promotedAt,omitempty"`
	// FirstBackup of the lineage that began with the promotion, in the repository that spec.archive names; missing: none is known to be complete.
	// It is recorded once, and may have been deleted since.
	// +optional
	FirstBackup *StandbyFirstBackup `json:"firstBackup,omitempty"`
}

// StandbyFirstBackup is the first backup that is known after a promotion.
type StandbyFirstBackup struct {
	// Name of the Backup, if the db-controller has requested it.
	// +optional
	Name string `json:"name,omitempty"`
	// FoundAt is when it was found to be complete.
	FoundAt metav1.Time `json:"foundAt"`
}

// StandbyReinit is another copy of the data of a standby. It replaces the current one once it is complete.
type StandbyReinit struct {
	// Stage of it.
	Stage StandbyReinitStage `json:"stage"`
	// Reason why another copy is needed: Diverged, WALMissing or SourceMoved.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// Lineage of the backup.
	Lineage string `json:"lineage"`
	// Backup that the copy is made from, by its id in the repository.
	Backup string `json:"backup"`
	// BeyondLSN is what the new copy has to replay before it replaces the other one. If missing, it only has to be consistent.
	// +optional
	BeyondLSN string `json:"beyondLSN,omitempty"`
	// StartsAt is when it begins, or has begun.
	StartsAt metav1.Time `json:"startsAt"`
}

// StandbyReinitStage is how far another copy is.
type StandbyReinitStage string

const (
	// StandbyReinitPlanned: it begins at startsAt.
	StandbyReinitPlanned StandbyReinitStage = "Planned"
	// StandbyReinitRestoring: a backup is being restored.
	StandbyReinitRestoring StandbyReinitStage = "Restoring"
	// StandbyReinitCatchingUp: WAL is replayed, until it has more than the other copy.
	StandbyReinitCatchingUp StandbyReinitStage = "CatchingUp"
)

// StandbyProblem is something that a person may have to solve.
type StandbyProblem struct {
	// Reason in one word, such as WALMissing.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// Message for a person.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// StandbyPromotionRequest is a recorded spec.standby.promote.
type StandbyPromotionRequest struct {
	// Mode of the promotion.
	Mode StandbyPromotion `json:"mode"`
	// RequestedAt is when it was recorded.
	RequestedAt metav1.Time `json:"requestedAt"`
	// Generation of the PostgresCluster that requested it.
	Generation int64 `json:"generation"`
}
