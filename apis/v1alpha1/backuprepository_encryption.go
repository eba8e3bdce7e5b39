package v1alpha1

// EncryptionSpec has everything in the bucket encrypted before it leaves the pod, by AES-256-GCM. Whoever has the bucket
// learns names, sizes and times of objects, and nothing else.
type EncryptionSpec struct {
	// SecretName of a Secret with the keys. Each entry is one: 32 random bytes in hexadecimal or base64, as
	// `openssl rand -hex 32` makes them, under a name of your choice, such as 2026-01. Keep them outside of this
	// Kubernetes too: without them nothing in the bucket can be read.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// Key names the entry that encrypts from now on. What is there is not written again: only the small objects below
	// keys/ in the bucket are. A key of before stays in the Secret until status.encryption.spareKeys names it. Left out:
	// what the entry `current` says, or the only one.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`
	Key string `json:"key,omitempty"`
}

// EncryptionStatus says how the repository is encrypted.
type EncryptionStatus struct {
	// Key that encrypts from now on.
	Key string `json:"key"`
	// NeededKeys are those without which something in the bucket can't be read.
	// +optional
	// +listType=set
	NeededKeys []string `json:"neededKeys,omitempty"`
	// SpareKeys are in the Secret and not needed: they may be taken away. What a former key opened in the bucket goes
	// then too.
	// +optional
	// +listType=set
	SpareKeys []string `json:"spareKeys,omitempty"`
}

// Reasons of a BackupRepository's Ready condition about encryption. Backups and restores that can't go on for them say the
// same. ReasonSecretNotFound is said of the Secret with the keys too.
const (
	// ReasonKeyNotFound: the key that the repository is encrypted with is not in the Secret, or no Secret is named.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonWrongKey: a key in the Secret is another than that of its name, or is none.
	ReasonWrongKey = "WrongKey"
	// ReasonNotEncrypted: keys are given, and the repository holds plain data.
	ReasonNotEncrypted = "NotEncrypted"
)
