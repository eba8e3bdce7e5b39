package sealed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// ring is the data keys of a store. It never changes; a newer one takes its place.
type ring struct {
	keys   Keys
	open   map[string]dataKey
	locked map[string]error // why the others can't be opened
	loaded time.Time
}

// load reads the data keys. Those that were opened before are not opened again.
func load(ctx context.Context, store objstore.Store, source Source, before *ring, now time.Time) (*ring, error) {
	keys, err := source()
	if err != nil {
		return nil, err
	}
	names, err := wraps(ctx, store)
	if err != nil {
		return nil, err
	}
	r := &ring{keys: keys, open: map[string]dataKey{}, locked: map[string]error{}, loaded: now}
	for id, by := range names {
		if before != nil && before.open[id].secret != nil {
			r.open[id] = before.open[id]
			continue
		}
		key, err := unlock(ctx, store, keys, id, by)
		switch {
		case err == nil:
			r.open[id] = key
		case final(err):
			r.locked[id] = err
		default:
			return nil, err
		}
	}
	return r, nil
}

// final: it is no fault of the network.
func final(err error) bool {
	return errors.Is(err, ErrKeyNotFound) || errors.Is(err, ErrWrongKey) || errors.Is(err, objstore.ErrCorrupt) || errors.Is(err, objstore.ErrNotFound)
}

// unlock opens a data key by whichever of its wraps we have the key to. Those that have the name of one of ours come first.
func unlock(ctx context.Context, store objstore.Store, keys Keys, id string, by []string) (dataKey, error) {
	slices.SortFunc(by, func(a, b string) int { return rank(keys, a) - rank(keys, b) })
	var refusals error
	for _, name := range by {
		w, err := readWrap(ctx, store, wrap{ID: id, Key: name}.object())
		if err == nil {
			key, errUnwrap := w.unwrap(keys)
			if errUnwrap == nil {
				return key, nil
			}
			err = errUnwrap
		}
		if !final(err) {
			return dataKey{}, err
		}
		if refusals == nil {
			refusals = err
		}
	}
	return dataKey{}, refusals
}

func rank(keys Keys, name string) int {
	switch {
	case name == keys.current:
		return 0
	case keys.byName[name] != nil:
		return 1
	}
	return 2
}

// newest is what seals new objects; empty: none that is open may.
func (r *ring) newest() string {
	newest, current := "", fingerprint(r.keys.byName[r.keys.current])
	for id, key := range r.open {
		if key.writes(current) {
			newest = max(newest, id)
		}
	}
	return newest
}

// get finds a data key.
func (r *ring) get(id string) (dataKey, error) {
	if key, ok := r.open[id]; ok {
		return key, nil
	}
	if err := r.locked[id]; err != nil {
		return dataKey{}, err
	}
	return dataKey{}, failf(ErrKeyNotFound, "there is no data key %s below %s in the repository: it was deleted", id, Prefix)
}

// refusal says why nothing can be opened.
func (r *ring) refusal() error {
	for _, err := range r.locked {
		return err
	}
	return failf(ErrKeyNotFound, "%s says that the repository is encrypted, and there is no data key below %s: they were deleted", markerKey, Prefix)
}

// ensureNewest makes sure that there is a data key that was made under the current key.
func (r *ring) ensureNewest(ctx context.Context, store objstore.Store, now time.Time) (*ring, error) {
	if r.newest() != "" {
		return r, nil
	}
	key := newDataKey(r.keys, now)
	w, err := wrapKey(key, r.keys, r.keys.current, now)
	if err == nil {
		_, err = w.put(ctx, store, r.keys)
	}
	if err != nil {
		return nil, fmt.Errorf("make a data key: %w", err)
	}
	r.open[key.id] = key
	return r, nil
}
