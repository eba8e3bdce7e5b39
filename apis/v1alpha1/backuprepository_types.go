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
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BackupRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BackupRepositorySpec `json:"spec"`
	// +optional
	Status BackupRepositoryStatus `json:"status,omitempty"`
}

// BackupRepositoryList is a list of BackupRepositories.
// +kubebuilder:object:root=true
type BackupRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupRepository `json:"items"`
}

// BackupRepositorySpec says where the repository is.
type BackupRepositorySpec struct {
	// S3 is an S3 bucket, of AWS or of a compatible server.
	S3 S3Spec `json:"s3"`
}

// S3Spec describes a bucket and how to reach it.
// +kubebuilder:validation:XValidation:rule="self.client != 'Minio' || has(self.endpoint)",message="spec.s3.client: Minio needs spec.s3.endpoint, such as https://minio.example.com:9000"
// +kubebuilder:validation:XValidation:rule="self.client != 'Minio' || has(self.credentials)",message="spec.s3.client: Minio needs spec.s3.credentials.secretName; only client: AWS can take credentials from the environment"
// +kubebuilder:validation:XValidation:rule="has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="spec.s3.prefix can't be changed: make another BackupRepository"
type S3Spec struct {
	// Client is the library that talks to the server: AWS for AWS itself (with its whole credential chain) and most
	// others, Minio for servers that only it gets on with.
	// +optional
	// +kubebuilder:default=AWS
	Client S3Client `json:"client,omitempty"`
	// Endpoint of the server, as a URL. Left out: AWS.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHost() != ''",message="spec.s3.endpoint must be a URL with https:// and a host, such as https://minio.example.com:9000"
	// +kubebuilder:validation:MaxLength=512
	Endpoint string `json:"endpoint,omitempty"`
	// Region of the bucket.
	// +optional
	// +kubebuilder:default=us-east-1
	Region string `json:"region,omitempty"`
	// Bucket name. It must exist.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.s3.bucket can't be changed: make another BackupRepository"
	Bucket string `json:"bucket"`
	// Prefix in the bucket under which everything lies, such as production/.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.contains('//') && !self.contains('..')",message="spec.s3.prefix must not begin with / nor have // or .. in it; for example: production/"
	Prefix string `json:"prefix,omitempty"`
	// ForcePathStyle puts the bucket in the path instead of the host name. Left out: true where there is an endpoint.
	// +optional
	ForcePathStyle *bool `json:"forcePathStyle,omitempty"`
	// CABundle are certificates, in PEM, that the server's certificate is checked with. Left out: the public ones.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="self.contains('-----BEGIN CERTIFICATE-----')",message="spec.s3.caBundle must hold certificates in PEM (-----BEGIN CERTIFICATE-----)"
	CABundle string `json:"caBundle,omitempty"`
	// Credentials. Left out: from the environment (instance role, web identity), client AWS only.
	// +optional
	Credentials *S3Credentials `json:"credentials,omitempty"`
}

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
	// SecretName of a Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if need be, AWS_SESSION_TOKEN.
	// +kubebuilder:validation:MinLength=1
	SecretName string `json:"secretName"`
}

// BackupRepositoryStatus says what was found. Written by the backup-controller alone.
type BackupRepositoryStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions and reasons of a BackupRepository. Written by the backup-controller; read by the db-controller (whether to
// expect archiving to work), by backups and by the restore-controller.
const (
	// ConditionReady is on every kind that runs on.
	ConditionReady = "Ready"

	// ReasonChecking (see Upgrade): the first check is under way.

	// ReasonAvailable: writing, reading, listing and deleting work.
	ReasonAvailable = "Available"
	// ReasonUnreachable: the server doesn't answer.
	ReasonUnreachable = "Unreachable"
	// ReasonAccessDenied: the credentials are wrong or not enough.
	ReasonAccessDenied = "AccessDenied"
	// ReasonBucketNotFound: the bucket doesn't exist.
	ReasonBucketNotFound = "BucketNotFound"
	// ReasonSecretNotFound: the Secret with the credentials doesn't exist or lacks a key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonNotSupported: the server doesn't honour what Howdah needs, such as If-None-Match.
	ReasonNotSupported = "NotSupported"
	// ReasonInUse: it is being deleted, but clusters or backups still need it.
	ReasonInUse = "InUse"
)
