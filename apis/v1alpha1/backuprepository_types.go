package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupRepository is a place in an object store for WAL and backups.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pgrepo,categories=howdah
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Bucket",type=string,JSONPath=`.spec.s3.bucket`
// +kubebuilder:printcolumn:name="Prefix",type=string,JSONPath=`.spec.s3.prefix`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Backups",type=integer,JSONPath=`.status.backups`
// +kubebuilder:printcolumn:name="Stored",type=integer,format=int64,JSONPath=`.status.storedBytes`
// +kubebuilder:printcolumn:name="From",type=date,JSONPath=`.status.lineages[0].recoverableFrom`
// +kubebuilder:printcolumn:name="Drilled",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Drilled")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BackupRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BackupRepositorySpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status BackupRepositoryStatus `json:"status,omitempty"`
}

// BackupRepositoryList is a list of BackupRepositories.
// +kubebuilder:object:root=true
type BackupRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupRepository `json:"items"`
}

// BackupRepositorySpec describes a repository.
// +kubebuilder:validation:XValidation:rule="!has(self.asOf) || has(self.readOnly) && self.readOnly",message="spec.asOf shows the bucket as it was, which can't be changed: set spec.readOnly: true as well"
// +kubebuilder:validation:XValidation:rule="has(self.encryption) == has(oldSelf.encryption)",message="spec.encryption can't be switched on or off, because existing objects would stay as they are: create another BackupRepository with another spec.s3.prefix"
// +kubebuilder:validation:XValidation:rule="!has(self.encryption) || !has(self.s3.credentials) || self.encryption.secretName != self.s3.credentials.secretName",message="spec.encryption.secretName must not be the Secret of spec.s3.credentials, because each of its entries is a key"
// +kubebuilder:validation:XValidation:rule="has(self.authentication) == has(oldSelf.authentication)",message="spec.authentication can't be switched on or off, because existing objects would stay as they are: create another BackupRepository with another spec.s3.prefix"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.encryption)",message="spec.authentication must not be set together with spec.encryption, because what is encrypted is authenticated, too: remove spec.authentication"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !has(self.s3.credentials) || self.authentication.secretName != self.s3.credentials.secretName",message="spec.authentication.secretName must not be the Secret of spec.s3.credentials, because each of its entries is a key"
type BackupRepositorySpec struct {
	// S3 is a bucket of AWS or of an S3-compatible server.
	S3 S3Spec `json:"s3"`
	// Encryption by the client. By default, objects are stored without it.
	// +optional
	Encryption *EncryptionSpec `json:"encryption,omitempty"`
	// Authentication signs what is written, and refuses to read what has no valid signature. By default, whoever can write to the
	// bucket decides what is restored. An encrypted repository does not need it.
	// +optional
	Authentication *AuthenticationSpec `json:"authentication,omitempty"`
	// ReadOnly writes and deletes nothing in the bucket: its content can be listed and restored. No cluster can archive to
	// it.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// AsOf reads a bucket that keeps versions as it was at this time, such as 2026-03-04T05:00:00Z, including
	// everything that was deleted or replaced since. It needs readOnly: true. Use it in a second BackupRepository to
	// list and restore what was lost.
	// +optional
	AsOf *metav1.Time `json:"asOf,omitempty"`
	// Retention says what is kept in the repository; everything else is deleted. It applies to each lineage separately: the
	// data of one cluster since it was created, restored or upgraded. By default, nothing is deleted.
	// +optional
	Retention *RetentionSpec `json:"retention,omitempty"`
	// MaxConcurrentBackups is how many Backups may be stored in the repository at a time. The others wait in the condition Succeeded with
	// the reason Queued; those that the suite requests, such as before an Upgrade, go first. By default, only the limits of the suite
	// apply.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="spec.maxConcurrentBackups must be 1 or more; remove it for no limit, and set spec.suspend of BackupSchedules for no backups"
	MaxConcurrentBackups *int32 `json:"maxConcurrentBackups,omitempty"`
	// Catalogue says for which backups in the bucket Backup objects are created, if there are none. With Auto, for those of
	// clusters that are not in this Kubernetes cluster, or for all if the repository is readOnly. At most a hundred are
	// created, for the newest backups. Deleting one keeps its data, and it is found again.
	// +optional
	// +kubebuilder:default=Auto
	Catalogue CatalogueMode `json:"catalogue,omitempty"`
	// Verify reads every backup of the repository and checks it against its checksums, on a schedule.
	// +optional
	Verify *RepositoryVerify `json:"verify,omitempty"`
	// Drill restores a backup of the repository into a temporary cluster and checks it, on a schedule.
	// +optional
	Drill *RepositoryDrill `json:"drill,omitempty"`
}

// S3Spec describes a bucket and how to reach it.
// +kubebuilder:validation:XValidation:rule="self.client != 'Minio' || has(self.endpoint)",message="spec.s3.client: Minio needs spec.s3.endpoint, such as https://minio.example.com:9000"
// +kubebuilder:validation:XValidation:rule="self.client != 'Minio' || has(self.credentials)",message="spec.s3.client: Minio needs spec.s3.credentials.secretName; only client: AWS can use credentials from the environment"
// +kubebuilder:validation:XValidation:rule="!has(self.endpoint) || !self.endpoint.lowerAscii().startsWith('http://') || (has(self.insecure) && self.insecure)",message="spec.s3.endpoint must begin with https://, because anybody on the way can read and change what passes over http://; if that is meant, also write spec.s3.insecure: true"
// +kubebuilder:validation:XValidation:rule="has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="spec.s3.prefix can't be changed: create another BackupRepository"
type S3Spec struct {
	// Client is the library that talks to the server: AWS for AWS itself (with its whole credential chain) and most other
	// servers, Minio for servers that work only with that.
	// +optional
	// +kubebuilder:default=AWS
	Client S3Client `json:"client,omitempty"`
	// Endpoint of the server, as a URL. By default, AWS.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHost() != ''",message="spec.s3.endpoint must be a URL with https:// and a host, such as https://minio.example.com:9000"
	// +kubebuilder:validation:MaxLength=512
	Endpoint string `json:"endpoint,omitempty"`
	// Insecure allows an endpoint with http://: anybody on the network path can read and change the data. With https://
	// it changes nothing; certificates are always verified.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
	// Region of the bucket.
	// +optional
	// +kubebuilder:default=us-east-1
	Region string `json:"region,omitempty"`
	// Bucket is the name of the bucket, which must exist.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.s3.bucket can't be changed: create another BackupRepository"
	Bucket string `json:"bucket"`
	// Prefix of all keys in the bucket, such as production/.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.contains('//') && !self.contains('..')",message="spec.s3.prefix must not begin with /, and must not contain // or ..; for example: production/"
	Prefix string `json:"prefix,omitempty"`
	// ForcePathStyle puts the bucket into the path instead of the host name. The default is true if an endpoint is set.
	// +optional
	ForcePathStyle *bool `json:"forcePathStyle,omitempty"`
	// CABundle contains CA certificates, in PEM, with which the server's certificate is verified. By default, the
	// public CAs are trusted.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="self.contains('-----BEGIN CERTIFICATE-----')",message="spec.s3.caBundle must contain certificates in PEM (-----BEGIN CERTIFICATE-----)"
	CABundle string `json:"caBundle,omitempty"`
	// Credentials for the server. By default, they come from the environment (instance role, web identity), which works with
	// client AWS only: instances and Jobs have the identity of their ServiceAccounts, and the controllers use theirs only where the
	// administrator has allowed it (cloudIdentity.grants in the values of the chart).
	// +optional
	Credentials *S3Credentials `json:"credentials,omitempty"`
	// ServerSideEncryption makes the server encrypt what is written. By default, the settings of the bucket apply.
	// +optional
	ServerSideEncryption *ServerSideEncryption `json:"serverSideEncryption,omitempty"`
}

// ServerSideEncryption says how the server encrypts.
// +kubebuilder:validation:XValidation:rule="!has(self.kmsKey) || self.type == 'KMS'",message="spec.s3.serverSideEncryption.kmsKey needs type: KMS"
type ServerSideEncryption struct {
	// Type is S3 to let the server use its own key (SSE-S3), or KMS for a key of its key service (SSE-KMS).
	Type ServerSideEncryptionType `json:"type"`
	// KMSKey is the id or ARN of the key. By default, the key service's default for the bucket.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	KMSKey string `json:"kmsKey,omitempty"`
}

// ServerSideEncryptionType says who has the key.
// +kubebuilder:validation:Enum=S3;KMS
type ServerSideEncryptionType string

const (
	// EncryptionS3 is SSE-S3.
	EncryptionS3 ServerSideEncryptionType = "S3"
	// EncryptionKMS is SSE-KMS.
	EncryptionKMS ServerSideEncryptionType = "KMS"
)

// S3Client names a library.
// +kubebuilder:validation:Enum=AWS;Minio
type S3Client string

const (
	// S3ClientAWS is aws-sdk-go-v2.
	S3ClientAWS S3Client = "AWS"
	// S3ClientMinio is minio-go.
	S3ClientMinio S3Client = "Minio"
)

// S3Credentials says where the credentials are.
type S3Credentials struct {
	// SecretName of a Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if needed, AWS_SESSION_TOKEN.
	// +kubebuilder:validation:MinLength=1
	SecretName string `json:"secretName"`
}

// BackupRepositoryStatus is the observed state of a repository. Written by the backup-controller alone.
type BackupRepositoryStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, Verified, Drilled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Identity of the repository, as first read from howdah.json: a random identity if the repository is encrypted or
	// signed, otherwise the time when it was created. If another repository is found at the same place, Ready is False
	// (RepositoryReplaced).
	// +optional
	Identity string `json:"identity,omitempty"`
	// Encryption says which keys encrypt the repository, if it is encrypted.
	// +optional
	Encryption *EncryptionStatus `json:"encryption,omitempty"`
	// Authentication says which keys sign the repository, if it is signed.
	// +optional
	Authentication *EncryptionStatus `json:"authentication,omitempty"`
	// LastInventoryTime is when the last inventory of the bucket was taken, on which the following fields are based.
	// +optional
	LastInventoryTime *metav1.Time `json:"lastInventoryTime,omitempty"`
	// InventoryError says why no inventory could be taken since; empty if it could.
	// +optional
	InventoryError string `json:"inventoryError,omitempty"`
	// Backups is the number of backups in the repository.
	// +optional
	Backups int32 `json:"backups,omitempty"`
	// StoredBytes of backups and WAL in the repository.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// Kept is what the bucket itself keeps of deleted or replaced objects. Empty if it keeps nothing, or Howdah lacks the
	// permission to ask (s3:GetBucketVersioning, s3:GetBucketObjectLockConfiguration, s3:ListBucketVersions).
	// +optional
	Kept *KeptStatus `json:"kept,omitempty"`
	// Lineages in the repository, the one that was written last first; at most fifty. If there are more, these are the lineages
	// from which something is to be deleted, then those that PostgresClusters write.
	// +optional
	// +listType=map
	// +listMapKey=name
	Lineages []LineageStatus `json:"lineages,omitempty"`
	// Retention says what spec.retention has deleted and would delete.
	// +optional
	Retention *RetentionStatus `json:"retention,omitempty"`
	// Catalogue says which Backups were created for what was found.
	// +optional
	Catalogue string `json:"catalogue,omitempty"`
	// Verification of the backups in the repository.
	// +optional
	Verification *RepositoryVerification `json:"verification,omitempty"`
	// Drill is the state of the drills.
	// +optional
	Drill *DrillStatus `json:"drill,omitempty"`
}

// KeptStatus is what a bucket with versioning keeps of deleted objects; nobody sees it, and it is paid for.
type KeptStatus struct {
	// Objects is the number of versions of deleted or replaced objects.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// Bytes is the space that they use.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// ObjectLock of the bucket, such as "COMPLIANCE for 30 days": no version can be deleted for that long. If empty,
	// versions stay until a lifecycle rule of the bucket deletes them.
	// +optional
	ObjectLock string `json:"objectLock,omitempty"`
}

// Conditions and reasons of a BackupRepository. Written by the backup-controller; read by the db-controller (whether to
// expect archiving to work), by backups and by the restore-controller.
const (
	// ConditionReady is on every kind that keeps running.
	ConditionReady = "Ready"

	// ReasonChecking (see Upgrade): the first check is under way.

	// ReasonAvailable: writing, reading, listing and deleting work.
	ReasonAvailable = "Available"
	// ReasonClockDiffers: writing, reading, listing and deleting work, but the clocks of the controller and of the store differ by more than
	// minutes, so retention deletes nothing.
	ReasonClockDiffers = "ClockDiffers"
	// ReasonUnreachable: the server does not respond.
	ReasonUnreachable = "Unreachable"
	// ReasonAccessDenied: the credentials are wrong or do not allow enough.
	ReasonAccessDenied = "AccessDenied"
	// ReasonBucketNotFound: the bucket doesn't exist.
	ReasonBucketNotFound = "BucketNotFound"
	// ReasonSecretNotFound: the Secret with the credentials does not exist or lacks a key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonNotSupported: the server does not honour what Howdah needs, such as If-None-Match.
	ReasonNotSupported = "NotSupported"
	// ReasonRepositoryReplaced: howdah.json is not that of the repository in status.identity.
	ReasonRepositoryReplaced = "RepositoryReplaced"
	// ReasonNoRepository: there is no repository at the place of a readOnly one.
	ReasonNoRepository = "NoRepository"
	// ReasonReadOnly: a cluster or a backup would write to a repository that is readOnly.
	ReasonReadOnly = "ReadOnly"
	// ReasonExpired is the event of a Backup that spec.retention of its repository deletes.
	ReasonExpired = "Expired"
	// ReasonCleanedUp is the event of a repository in which spec.retention has deleted something.
	ReasonCleanedUp = "CleanedUp"
	// ReasonInUse: it is being deleted, but clusters or backups still need it.
	ReasonInUse = "InUse"
)
