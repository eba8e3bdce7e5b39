package sealed

import (
	"context"
	"errors"

	"howdah.dev/howdah/pkg/objstore"
)

// Unlock makes sure that the repository can be read and written with the keys that were given; a place where nothing is yet
// becomes an encrypted repository. Stores without encryption need none of it, and are asked only whether they would do
// without keys.
func Unlock(ctx context.Context, store objstore.Store) error {
	switch s := store.(type) {
	case *Store:
		_, err := s.writer(ctx)
		return err
	case *Guard:
		return s.Unlock(ctx)
	}
	return nil
}

// exclusively runs do when nobody else reads the data keys.
func (s *Store) exclusively(ctx context.Context, do func() (*ring, error)) (*ring, error) {
	select {
	case s.loading <- struct{}{}:
		defer func() { <-s.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r, err := do()
	if err != nil {
		return r, &ringError{err}
	}
	if len(r.open) > 0 {
		s.ring.Store(r)
	}
	return r, nil
}

// ringError is an error about the data keys, and never ErrNotFound: a rotation may delete a wrap while it is looked for, and who hears that
// an object is not found takes it for deleted.
type ringError struct{ err error }

func (e *ringError) Error() string { return e.err.Error() }
func (e *ringError) Is(target error) bool {
	return target != objstore.ErrNotFound && errors.Is(e.err, target)
}
func (e *ringError) As(target any) bool { return errors.As(e.err, target) }

// reader is the data keys for reading. In a place where nothing is yet there are none.
func (s *Store) reader(ctx context.Context) (*ring, error) {
	if r := s.ring.Load(); r != nil {
		return r, nil
	}
	r, err := s.exclusively(ctx, func() (*ring, error) {
		if r := s.ring.Load(); r != nil {
			return r, nil
		}
		return s.begin(ctx)
	})
	if errors.Is(err, errUnmarked) {
		return &ring{}, nil
	}
	return r, err
}

// errUnmarked: nothing is there yet.
var errUnmarked = errors.New("no repository is there yet")

// begin opens a repository that is there.
func (s *Store) begin(ctx context.Context) (*ring, error) {
	found, identity, err := readState(ctx, s.inner)
	switch {
	case err != nil:
		return nil, err
	case found == unmarked:
		if err := refuseData(ctx, s.inner, s.kind); err != nil {
			return nil, err
		}
		return nil, errUnmarked
	case !s.either || found == plain:
		if err := s.kind.refuse(found); err != nil {
			return nil, err
		}
	}
	r, err := (&ring{repository: identity, cipher: found.cipher()}).load(ctx, s.inner, s.source, s.now())
	if err == nil && len(r.open) == 0 {
		err = r.refusal()
	}
	return r, err
}

// writer is the data keys for writing. A place where nothing is yet becomes a repository.
func (s *Store) writer(ctx context.Context) (*ring, error) {
	if r := s.ring.Load(); r != nil && s.now().Sub(r.loaded) < refreshWriter {
		return r, nil
	}
	return s.exclusively(ctx, func() (*ring, error) {
		known := s.ring.Load()
		if known != nil && s.now().Sub(known.loaded) < refreshWriter {
			return known, nil
		}
		if known != nil {
			return s.refreshed(ctx, known), nil
		}
		r, err := s.begin(ctx)
		if errors.Is(err, errUnmarked) {
			return s.found(ctx)
		}
		return r, err
	})
}

// renewed makes a data key under the current key, unless somebody else has made one meanwhile: the key was changed, and nobody has
// rotated the repository yet.
func (s *Store) renewed(ctx context.Context) (*ring, error) {
	return s.exclusively(ctx, func() (*ring, error) {
		known := s.ring.Load()
		if known.newest() != "" {
			return known, nil
		}
		r, err := known.load(ctx, s.inner, s.source, s.now())
		if err != nil {
			return nil, err
		}
		return r.ensureNewest(ctx, s.inner, s.now())
	})
}

// refreshed looks for newer data keys. What can't be read now is looked for the next time: what is known still does.
func (s *Store) refreshed(ctx context.Context, known *ring) *ring {
	r, err := known.load(ctx, s.inner, s.source, s.now())
	if err == nil && len(r.open) > 0 {
		return r
	}
	later := *known
	later.loaded = s.now().Add(refreshReader - refreshWriter)
	return &later
}

// found makes a repository. The data key comes before the marker, so that one that is marked has a key. What somebody has left on the
// way belongs to a repository that never was.
func (s *Store) found(ctx context.Context) (*ring, error) {
	keys, err := s.source()
	if err != nil {
		return nil, err
	}
	r := (&ring{repository: newIdentity(), cipher: s.kind.cipher()}).empty(keys, s.now())
	if r, err = r.ensureNewest(ctx, s.inner, s.now()); err != nil {
		return nil, err
	}
	there, err := mark(ctx, s.inner, s.kind, r.repository, s.now())
	if err != nil || there == r.repository {
		return r, err
	}
	return s.begin(ctx) // somebody else was first
}

// dataKey finds the data key of an object. One that isn't known may be new.
func (s *Store) dataKey(ctx context.Context, r *ring, id string) (dataKey, error) {
	key, err := r.get(id)
	if err == nil {
		return key, nil
	}
	r, errLoad := s.exclusively(ctx, func() (*ring, error) {
		known := s.ring.Load()
		if known == nil {
			return r, nil // nothing is there yet
		}
		if known.open[id].secret != nil || s.now().Sub(known.loaded) < refreshReader {
			return known, nil
		}
		return known.load(ctx, s.inner, s.source, s.now())
	})
	if errLoad != nil {
		return dataKey{}, errLoad
	}
	return r.get(id)
}
