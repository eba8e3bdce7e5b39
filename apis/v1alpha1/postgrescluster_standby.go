package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Standby makes the cluster a standby of another one: it restores the newest backup of that one, and replays what it archives, until it is
// promoted. Until then, nobody can connect to it. It only reads the archive, and archives to spec.archive once it is promoted.
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source && self.database == oldSelf.database && self.owner == oldSelf.owner",message="spec.standby.source, database and owner can't be changed, because they say where the data came from: create a new PostgresCluster"
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
	// Promote ends the recovery, and the cluster accepts connections. With EndOfArchive, all that the archive has is replayed first, and the
	// promotion waits for as long as it can't be read. With Immediately, what was replayed has to do. It can't be taken back. Removing
	// spec.standby promotes nothing.
	// +optional
	Promote StandbyPromotion `json:"promote,omitempty"`
}

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
	// Backup that the data began with, by its id in the repository.
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
	// Promotion is what was requested. It is recorded before the worker is told.
	// +optional
	Promotion *StandbyPromotionRequest `json:"promotion,omitempty"`
	// PromotedAt is when the promotion was found to be complete. PostgreSQL has not accepted connections before.
	// +optional
	PromotedAt *metav1.Time `json:"promotedAt,omitempty"`
}

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
