package sealed

import (
	"context"
	"iter"
	"sync/atomic"

	"howdah.dev/howdah/pkg/objstore"
)

// Guard is a store without keys, which refuses a repository that is encrypted before anything is read or written there.
type Guard struct {
	inner objstore.Store
	known atomic.Bool // it is plain
}

// NewGuard wraps a store that is used as it is.
func NewGuard(inner objstore.Store) *Guard { return &Guard{inner: inner} }

// Unlock refuses an encrypted repository.
func (g *Guard) Unlock(ctx context.Context) error {
	if g.known.Load() {
		return nil
	}
	found, _, err := readState(ctx, g.inner)
	switch {
	case err != nil:
		return err
	case found == encrypted:
		return errEncrypted()
	case found == signed:
		return errSigned()
	case found == plain:
		g.known.Store(true)
	}
	return nil
}

// check is Unlock for an operation on a key. The marker itself can always be read.
func (g *Guard) check(ctx context.Context, key string) error {
	if key == markerKey {
		return nil
	}
	return g.Unlock(ctx)
}

// Put stores an object as it is.
func (g *Guard) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if err := g.check(ctx, key); err != nil {
		return err
	}
	return g.inner.Put(ctx, key, body, opts)
}

// Get reads an object.
func (g *Guard) Get(ctx context.Context, key string, limit int64) ([]byte, error) {
	if err := g.check(ctx, key); err != nil {
		return nil, err
	}
	return g.inner.Get(ctx, key, limit)
}

// ReadAt reads a range.
func (g *Guard) ReadAt(ctx context.Context, key string, p []byte, off int64) (int, error) {
	if err := g.check(ctx, key); err != nil {
		return 0, err
	}
	return g.inner.ReadAt(ctx, key, p, off)
}

// Stat asks for an object's size.
func (g *Guard) Stat(ctx context.Context, key string) (objstore.Info, error) {
	if err := g.check(ctx, key); err != nil {
		return objstore.Info{}, err
	}
	return g.inner.Stat(ctx, key)
}

// List lists objects.
func (g *Guard) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if err := g.Unlock(ctx); err != nil {
			yield(objstore.Info{}, err)
			return
		}
		g.inner.List(ctx, prefix, after)(yield)
	}
}

// Folders lists folders.
func (g *Guard) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := g.Unlock(ctx); err != nil {
			yield("", err)
			return
		}
		g.inner.Folders(ctx, prefix)(yield)
	}
}

// Delete removes objects.
func (g *Guard) Delete(ctx context.Context, keys ...string) error {
	if err := g.Unlock(ctx); err != nil {
		return err
	}
	return g.inner.Delete(ctx, keys...)
}

// Locks are those of the objects.
func (g *Guard) Locks() objstore.Locker { return g.inner.Locks() }

// Kept is what the bucket keeps.
func (g *Guard) Kept(ctx context.Context) (objstore.Kept, error) { return g.inner.Kept(ctx) }
