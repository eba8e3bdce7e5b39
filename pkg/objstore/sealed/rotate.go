package sealed

import (
	"context"
	"errors"
	"maps"
	"slices"

	"howdah.dev/howdah/pkg/objstore"
)

// State is how the data keys of a repository are wrapped.
type State struct {
	// Current is the key that wraps new ones.
	Current string
	// Needed are the keys without which something can't be read; Spare those that are given and not needed.
	Needed, Spare []string
	// DataKeys is how many there are.
	DataKeys int
	// Signed says that objects are signed, and not encrypted.
	Signed bool
}

// Rotate brings an encrypted repository to the current key: each data key is wrapped by it, and a new one is made for what
// is written from now on, so that who knows a former key can't read that. The wraps of a former key stay as long as the
// key is given: only who takes it away says that it is not wanted any more. It may be repeated, and killed at any point: a
// wrap is removed only when that by the current key was read back and opened. A store without encryption has no state.
func Rotate(ctx context.Context, store objstore.Store) (*State, error) {
	s, ok := store.(*Store)
	if !ok {
		return nil, nil
	}
	if _, err := s.writer(ctx); err != nil {
		return nil, err
	}
	r, err := s.exclusively(ctx, func() (*ring, error) {
		r, err := s.ring.Load().load(ctx, s.inner, s.source, s.now())
		if err == nil {
			r, err = r.ensureNewest(ctx, s.inner, s.now())
		}
		return r, err
	})
	if err != nil {
		return nil, err
	}
	if err := s.rewrap(ctx, r); err != nil {
		return nil, err
	}
	for _, err := range r.locked { // it may have been planted, and keeps nobody from the others
		return nil, err
	}
	return r.state(ctx, s.inner)
}

// Inspect says how the data keys are wrapped, and changes nothing. A store without encryption has no state.
func Inspect(ctx context.Context, store objstore.Store) (*State, error) {
	s, ok := store.(*Store)
	if !ok {
		return nil, nil
	}
	r, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	for _, err := range r.locked {
		return nil, err
	}
	return r.state(ctx, s.inner)
}

// state looks by which keys each data key is wrapped: those that the current one does not open need the others.
func (r *ring) state(ctx context.Context, store objstore.Store) (*State, error) {
	there, err := wraps(ctx, store)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{r.keys.current: true}
	for id := range r.open {
		if !slices.Contains(there[id], r.keys.current) {
			for _, by := range there[id] {
				needed[by] = true
			}
		}
	}
	spare := slices.DeleteFunc(r.keys.Names(), func(name string) bool { return needed[name] })
	return &State{Current: r.keys.current, Needed: slices.Sorted(maps.Keys(needed)), Spare: spare, DataKeys: len(r.open), Signed: r.cipher == cipherHMAC}, nil
}

func (s *Store) rewrap(ctx context.Context, r *ring) error {
	there, err := wraps(ctx, s.inner)
	if err != nil {
		return err
	}
	for id, key := range r.open {
		current, err := s.wrapByCurrent(ctx, r.keys, key)
		if err != nil {
			return err
		}
		for _, by := range there[id] {
			if r.keys.byName[by] == nil {
				if err := s.removeFormer(ctx, current, by); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// wrapByCurrent makes sure that the current key opens the data key.
func (s *Store) wrapByCurrent(ctx context.Context, keys Keys, key dataKey) (wrap, error) {
	key.origin = key.vouched(fingerprint(keys.byName[keys.current]))
	only := Keys{current: keys.current, byName: map[string][]byte{keys.current: keys.byName[keys.current]}}
	w, err := wrapKey(key, only, only.current, s.now())
	if err != nil {
		return wrap{}, err
	}
	there, err := readWrap(ctx, s.inner, w.object())
	if errors.Is(err, objstore.ErrNotFound) {
		return w.put(ctx, s.inner, only)
	}
	foreign := err == nil && there.Repository != key.repository
	if err == nil && !foreign {
		_, err = there.unwrap(only)
	}
	if foreign || errors.Is(err, objstore.ErrCorrupt) {
		// Nobody can open what is there. It is replaced at once, and not deleted before: it may have been read wrongly.
		return w.putBy(ctx, s.inner, only, objstore.PutOptions{})
	}
	return there, err
}

// removeFormer removes the wrap of a key that is not given any more. One that is newer than ours is left: somebody else has
// continued to that key, and would remove ours.
func (s *Store) removeFormer(ctx context.Context, current wrap, by string) error {
	former, err := readWrap(ctx, s.inner, wrap{ID: current.ID, Key: by}.object())
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil || former.Repository != current.Repository || !former.Created.Before(current.Created) {
		return err
	}
	return s.inner.Delete(ctx, former.object())
}
