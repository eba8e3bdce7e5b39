package objstore

import "time"

// Kept is what a bucket keeps of objects that were deleted or replaced. The zero value: nothing is kept.
type Kept struct {
	// Versions: older versions stay, until rules of the bucket remove them.
	Versions bool
	// LockMode of new objects, such as COMPLIANCE: no version can be removed before LockFor is over. Empty: none.
	LockMode string
	LockFor  time.Duration
	// Objects are the versions that are seen no more, and Bytes what they take.
	Objects, Bytes int64
}
