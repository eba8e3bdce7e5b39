package objstore

import (
	"errors"
	"fmt"
)

// What can be wrong, for errors.Is.
var (
	ErrNotFound    = errors.New("no such object")
	ErrExists      = errors.New("object exists already")
	ErrDenied      = errors.New("access denied")
	ErrTorn        = errors.New("object is shorter than it should be")
	ErrTooLarge    = errors.New("object is larger than expected")
	ErrCorrupt     = errors.New("corrupt object") // its bytes are not what was stored
	ErrUnavailable = errors.New("object store unavailable")
	ErrNoBucket    = errors.New("no such bucket")
	ErrConfig      = errors.New("object store configuration")
	ErrLocked      = errors.New("object is locked") // the bucket doesn't let it go yet
	ErrReadOnly    = errors.New("object store is read-only")
)

// Error is what drivers return: one of the sentinels as Kind, with the circumstances that a person
// needs. Its text holds no credentials.
type Error struct {
	Op       string // put, get, read, stat, list, delete
	Key      string // with the prefix; empty when the whole bucket is meant
	Bucket   string
	Endpoint string // empty for AWS itself
	Code     string // the server's own word, such as SignatureDoesNotMatch
	Kind     error  // a sentinel, or nil if the driver doesn't know this error
	Err      error
}

// Error names the operation, the object and the cause.
func (e *Error) Error() string {
	what := e.Bucket
	if e.Key != "" {
		what += "/" + e.Key
	}
	if e.Kind == nil {
		return fmt.Sprintf("%s %s: %v", e.Op, what, e.Err)
	}
	if e.Err == nil {
		return fmt.Sprintf("%s %s: %v", e.Op, what, e.Kind)
	}
	return fmt.Sprintf("%s %s: %v: %v", e.Op, what, e.Kind, e.Err)
}

// Unwrap lets errors.Is see the sentinel and errors.As the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
