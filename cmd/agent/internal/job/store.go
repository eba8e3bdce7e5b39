package job

import (
	"errors"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// StoreFailure gives an error of an object store its sentence, and the reason that a BackupRepository has for it. It may
// pass.
func StoreFailure(err error) error {
	return Fail(storeReason(err), errors.New(objstore.Explain(err)))
}

func storeReason(err error) string {
	switch {
	case sealed.Reason(err) != "":
		return sealed.Reason(err)
	case errors.Is(err, objstore.ErrDenied):
		return "AccessDenied"
	case errors.Is(err, objstore.ErrNoBucket):
		return "BucketNotFound"
	case errors.Is(err, objstore.ErrUnavailable):
		return "Unreachable"
	}
	return ReasonFailed
}
