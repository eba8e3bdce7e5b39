package objstore

import (
	"context"
	"errors"
	"time"
)

// missingTimeout bounds a list of one object: a server may answer without an end that more is to come.
const missingTimeout = 10 * time.Second

// Missing is err, which reading an object has returned, if it is ErrNotFound and the object isn't listed either, or if it is another one. A
// proxy that finds no store says that there is no object, too; who believed that would delete what the object still needs.
func Missing(ctx context.Context, store Store, key string, err error) error {
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, missingTimeout)
	defer cancel()
	for info, errList := range store.List(ctx, key, "") {
		if errors.Is(errList, context.DeadlineExceeded) {
			return &Error{Op: "list", Key: key, Kind: ErrUnavailable, Err: errList}
		}
		if errors.Is(errList, ErrNotFound) {
			return &Error{Op: "list", Key: key, Kind: ErrUnavailable, Err: errors.New(errList.Error())}
		}
		if errList != nil {
			return errList
		}
		if info.Key == key {
			return &Error{Op: "read", Key: key, Kind: ErrUnavailable, Err: errors.New("it is listed, and not found when it is read")}
		}
		break // all others come later
	}
	return err
}
