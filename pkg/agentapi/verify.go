package agentapi

import "howdah.dev/howdah/pkg/objstore"

// VerifyJob is job.json of a Job that reads all objects of a backup: `agent verify`. It needs the bucket and nothing else.
type VerifyJob struct {
	Object     Object          `json:"object"`
	Repository objstore.Config `json:"repository"`
	Lineage    string          `json:"lineage"`
	BackupID   string          `json:"backupID"`
	// MaxBytesPerSecond bounds what is read from the bucket; 0 is no bound.
	MaxBytesPerSecond int64 `json:"maxBytesPerSecond,omitempty"`
	// MemoryLimit of the buffers, in bytes.
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
}

// VerifyResult is what was read. A backup with wrong objects is a result, not a failure of the Job.
type VerifyResult struct {
	Objects      int64 `json:"objects"`
	CheckedBytes int64 `json:"checkedBytes"`
	WrongObjects int64 `json:"wrongObjects,omitempty"`
	// Wrong are the first of them, as many as a pod can hand over.
	Wrong []WrongObject `json:"wrong,omitempty"`
	// Locked is until when the object lock of the bucket keeps all of them; nil: it has none, or does not say.
	Locked *Locked `json:"locked,omitempty"`
}

// WrongObject is one that is missing or not what was stored.
type WrongObject struct {
	Object string `json:"object"`
	File   string `json:"file,omitempty"`
	Detail string `json:"detail"`
}
