// Package throttle bounds how fast objects are deleted, so that a cleanup slows nobody down.
package throttle

import (
	"context"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// batch is how many objects go in one request.
const batch = 100

// Store deletes at a bounded rate, and passes everything else on.
type Store struct {
	objstore.Store
	perSecond int
}

// New wraps a store from which at most this many objects a second are deleted.
func New(store objstore.Store, perSecond int) *Store {
	return &Store{Store: store, perSecond: perSecond}
}

// Delete removes the objects, one batch at a time, with a pause after each.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for len(keys) > 0 {
		n := min(batch, len(keys))
		if err := s.Store.Delete(ctx, keys[:n]...); err != nil {
			return err
		}
		if keys = keys[n:]; len(keys) == 0 {
			return nil
		}
		pause := time.NewTimer(time.Duration(n) * time.Second / time.Duration(s.perSecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
	return nil
}
