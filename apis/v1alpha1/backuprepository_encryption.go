package v1alpha1

// EncryptionSpec encrypts everything in the bucket before it leaves the pod, with AES-256-GCM. Anyone with access to the
// bucket can see the names, sizes and times of objects, and nothing else.
type EncryptionSpec struct {
	// SecretName of a Secret with the keys. Each entry is a key: 32 random bytes in hexadecimal or base64, as `openssl rand
	// -hex 32` prints them, under a name of your choice, such as 2026-01. Keep a copy outside of this Kubernetes cluster:
	// without the keys, nothing in the bucket can be read.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// Key names the entry that encrypts from now on. Existing data is not written again, only the small objects below keys/
	// in the bucket. Keep a previous key in the Secret until status.encryption.spareKeys names it. By default, the key that
	// the entry `current` names, or the only one.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`
	Key string `json:"key,omitempty"`
}

// AuthenticationSpec signs everything in the bucket with HMAC-SHA-256, and leaves it readable: anyone with access to the bucket can
// read it, and nobody without a key can write what is restored.
type AuthenticationSpec struct {
	// SecretName of a Secret with the keys, in the form of those of spec.encryption. Keep a copy outside of this Kubernetes
	// cluster: without the keys, nothing in the bucket is restored.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// Key names the entry that signs from now on. Keep a previous key in the Secret until status.authentication.spareKeys names
	// it. By default, the key that the entry `current` names, or the only one.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`
	Key string `json:"key,omitempty"`
}

// EncryptionStatus says by which keys the repository is encrypted or signed.
type EncryptionStatus struct {
	// Key that encrypts or signs from now on.
	Key string `json:"key"`
	// NeededKeys are the keys without which something in the bucket can't be read.
	// +optional
	// +listType=set
	NeededKeys []string `json:"neededKeys,omitempty"`
	// SpareKeys are in the Secret and not needed: they may be removed. The data keys that they wrap in the bucket are then
	// deleted.
	// +optional
	// +listType=set
	SpareKeys []string `json:"spareKeys,omitempty"`
}

// Reasons of a BackupRepository's Ready condition about encryption. Backups and restores that can't continue for them say the
// same. ReasonSecretNotFound is said of the Secret with the keys too.
const (
	// ReasonKeyNotFound: the key that the repository is encrypted with is not in the Secret, or no Secret is named.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonWrongKey: an entry of the Secret has the name of a key and is another key, or no key at all.
	ReasonWrongKey = "WrongKey"
	// ReasonNotEncrypted: there are keys, and the data in the repository is not encrypted.
	ReasonNotEncrypted = "NotEncrypted"
	// ReasonNotAuthenticated: there are keys for signatures, and the data in the repository is not signed.
	ReasonNotAuthenticated = "NotAuthenticated"
)
