package sealed

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"howdah.dev/howdah/pkg/objstore"
)

// ring is the data keys of a store. It never changes; a newer one takes its place.
type ring struct {
	repository string // its identity
	cipher     byte   // of its objects
	keys       Keys
	open       map[string]dataKey
	locked     map[string]error // why the others can't be opened
	loaded     time.Time
}

// load reads the data keys again. Those that are open are not opened again. Those of other repositories are none.
func (r *ring) load(ctx context.Context, store objstore.Store, source Source, now time.Time) (*ring, error) {
	keys, err := source()
	if err != nil {
		return nil, err
	}
	names, err := wraps(ctx, store)
	if err != nil {
		return nil, err
	}
	loaded := r.empty(keys, now)
	for id, by := range names {
		if r.open[id].secret != nil {
			loaded.open[id] = r.open[id]
			continue
		}
		key, err := loaded.unlock(ctx, store, id, by)
		switch {
		case err == nil:
			loaded.open[id] = key
		case errors.Is(err, errForeign):
		case final(err):
			loaded.locked[id] = err
		default:
			return nil, err
		}
	}
	return loaded, nil
}

// empty is a ring of the same repository without data keys.
func (r *ring) empty(keys Keys, now time.Time) *ring {
	return &ring{repository: r.repository, cipher: r.cipher, keys: keys, open: map[string]dataKey{}, locked: map[string]error{}, loaded: now}
}

// errForeign is a wrap that another repository has made, and that somebody has moved here.
var errForeign = errors.New("the data key belongs to another repository")

// final: it is no fault of the network.
func final(err error) bool {
	return errors.Is(err, ErrKeyNotFound) || errors.Is(err, ErrWrongKey) || errors.Is(err, objstore.ErrCorrupt) || errors.Is(err, objstore.ErrNotFound)
}

// unlock opens a data key by whichever of its wraps we have the key to. Those that have the name of one of ours come first.
func (r *ring) unlock(ctx context.Context, store objstore.Store, id string, by []string) (dataKey, error) {
	slices.SortFunc(by, func(a, b string) int { return rank(r.keys, a) - rank(r.keys, b) })
	refusals := errForeign
	for _, name := range by {
		w, err := readWrap(ctx, store, wrap{ID: id, Key: name}.object())
		if err == nil && w.Repository != r.repository {
			continue
		}
		if err == nil {
			key, errUnwrap := w.unwrap(r.keys)
			if errUnwrap == nil {
				return key, nil
			}
			err = errUnwrap
		}
		if !final(err) {
			return dataKey{}, err
		}
		if errors.Is(refusals, errForeign) {
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
		if key.writes(current) && !fromTheFuture(id, r.loaded) {
			newest = max(newest, id)
		}
	}
	return newest
}

// maxSkew is how far the clock of another writer may be ahead.
const maxSkew = time.Hour

// fromTheFuture says of the id of a data key, which begins with the second in which it was created, that nobody can have created it yet. It would
// be the newest for long, and seal whatever is written: it only reads.
func fromTheFuture(id string, now time.Time) bool {
	created, err := hex.DecodeString(id[:min(len(id), 8)])
	return err != nil || len(created) < 4 || time.Unix(int64(binary.BigEndian.Uint32(created)), 0).After(now.Add(maxSkew))
}

// get finds a data key.
func (r *ring) get(id string) (dataKey, error) {
	if key, ok := r.open[id]; ok {
		return key, nil
	}
	if err := r.locked[id]; err != nil {
		return dataKey{}, err
	}
	return dataKey{}, failf(ErrKeyNotFound, "there is no data key %s of this repository below %s: it was deleted, or the object comes from another repository", id, Prefix)
}

// refusal says why nothing can be opened.
func (r *ring) refusal() error {
	for _, err := range r.locked {
		return err
	}
	return failf(ErrKeyNotFound, "%s says that the repository has keys, and there is no data key below %s: they were deleted", markerKey, Prefix)
}

// ensureNewest makes sure that there is a data key that was made under the current key.
func (r *ring) ensureNewest(ctx context.Context, store objstore.Store, now time.Time) (*ring, error) {
	if r.newest() != "" {
		return r, nil
	}
	key := newDataKey(r.repository, r.keys, now)
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
