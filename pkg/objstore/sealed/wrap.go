package sealed

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// Prefix is where the data keys are: an object <Prefix><data key>/<key> for each key that wraps it.
const Prefix = layout.KeysPrefix

const (
	// maxWrap bounds one of these objects.
	maxWrap = 64 << 10
	// maxWraps is how many there may be: a rotation each day for years.
	maxWraps = 1 << 12
)

// dataKey seals objects.
type dataKey struct {
	id     string // sorts by when it was made
	origin string // fingerprint of the key that was current then
	by     string // fingerprint of the key that has opened it
	secret []byte
	// repository is the identity of the one that it belongs to; empty in those without.
	repository string
}

func (k dataKey) version() byte {
	if k.repository == "" {
		return versionFirst
	}
	return versionIdentity
}

// writes says whether the data key seals new objects while the key with this fingerprint is current: only one that was made under
// that key does, and only where that key says so. A wrap of a former key may have come from anybody who knew it, and says what
// they like.
func (k dataKey) writes(current string) bool { return k.origin == current && k.by == current }

// vouched is the origin as the current key may repeat it: what only another key says of it is not true because the current one
// has wrapped it.
func (k dataKey) vouched(current string) string {
	if k.origin == current && k.by != current {
		return k.by
	}
	return k.origin
}

// wrap is a data key, wrapped by a key: the JSON of an object below Prefix.
type wrap struct {
	Format int    `json:"format"`
	ID     string `json:"id"` // of the data key
	// Repository is the identity of the one that the data key belongs to. It is missing in format 1.
	Repository string `json:"repository,omitempty"`
	Origin     string `json:"origin"` // fingerprint of the key that was current when the data key was made
	Key        string `json:"key"`    // name of the key that wraps it here
	// Fingerprint of that key: the first 8 bytes of HMAC-SHA-256 of "howdah fingerprint".
	Fingerprint string `json:"fingerprint"`
	// Nonce and Wrapped: AES-256-GCM of the data key, with binding as associated data.
	Nonce   []byte    `json:"nonce"`
	Wrapped []byte    `json:"wrapped"`
	Created time.Time `json:"created"`
}

func (w wrap) binding() []byte {
	binding := "howdah data key " + w.ID + " " + w.Origin
	if w.Repository != "" {
		binding += " " + w.Repository
	}
	return []byte(binding)
}

func (w wrap) object() string { return Prefix + w.ID + "/" + w.Key }

// newDataKey makes one under the current key, for the repository with this identity.
func newDataKey(repository string, keys Keys, now time.Time) dataKey {
	var id [keyNameSize / 2]byte
	_, _ = rand.Read(id[:])
	binary.BigEndian.PutUint32(id[:], uint32(now.Unix()))
	current := fingerprint(keys.byName[keys.current])
	key := dataKey{id: hex.EncodeToString(id[:]), origin: current, by: current, secret: make([]byte, keySize), repository: repository}
	_, _ = rand.Read(key.secret)
	return key
}

// wrapKey wraps a data key by the named key.
func wrapKey(key dataKey, keys Keys, by string, now time.Time) (wrap, error) {
	aead, err := newGCM(keys.byName[by])
	if err != nil {
		return wrap{}, err
	}
	w := wrap{
		Format: int(key.version()), ID: key.id, Repository: key.repository, Origin: key.origin, Key: by, Fingerprint: fingerprint(keys.byName[by]),
		Nonce: make([]byte, aead.NonceSize()), Created: now.UTC(),
	}
	_, _ = rand.Read(w.Nonce)
	w.Wrapped = aead.Seal(nil, w.Nonce, key.secret, w.binding())
	return w, nil
}

// put stores a wrap, and returns what is there then. One that was there already is fine if our key opens it.
func (w wrap) put(ctx context.Context, store objstore.Store, keys Keys) (wrap, error) {
	return w.putBy(ctx, store, keys, objstore.PutOptions{IfAbsent: true})
}

func (w wrap) putBy(ctx context.Context, store objstore.Store, keys Keys, opts objstore.PutOptions) (wrap, error) {
	body, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return wrap{}, err
	}
	put := store.Put(ctx, w.object(), append(body, '\n'), opts)
	there, err := readWrap(ctx, store, w.object())
	if err != nil {
		if put != nil {
			return wrap{}, put
		}
		return wrap{}, err
	}
	_, err = there.unwrap(keys)
	return there, err
}

// readWrap reads a wrap.
func readWrap(ctx context.Context, store objstore.Store, object string) (wrap, error) {
	body, err := store.Get(ctx, object, maxWrap)
	if err != nil {
		return wrap{}, err
	}
	w, err := parseWrap(body)
	if err == nil && w.object() != object {
		err = fmt.Errorf("it is %s", w.object())
	}
	if err != nil {
		return wrap{}, damaged(object, err)
	}
	return w, nil
}

func parseWrap(body []byte) (wrap, error) {
	w := wrap{}
	if err := json.Unmarshal(body, &w); err != nil {
		return wrap{}, err
	}
	switch {
	case w.Format > versionIdentity:
		return wrap{}, fmt.Errorf("it has format %d, and was written by a later version of Howdah", w.Format)
	case w.Format < versionFirst, (w.Format == versionFirst) != (w.Repository == ""), !validDataKey(w.ID), !keyName.MatchString(w.Key):
		return wrap{}, fmt.Errorf("it has format %d, and is not a data key", w.Format)
	}
	return w, nil
}

// unwrap opens a wrap by the key that has its fingerprint.
func (w wrap) unwrap(keys Keys) (dataKey, error) {
	key := keys.find(w.Fingerprint)
	if key == nil {
		return dataKey{}, w.refused(keys)
	}
	aead, err := newGCM(key)
	if err != nil {
		return dataKey{}, err
	}
	if len(w.Nonce) != aead.NonceSize() {
		return dataKey{}, damaged(w.object(), fmt.Errorf("its nonce has %d bytes", len(w.Nonce)))
	}
	secret, err := aead.Open(nil, w.Nonce, w.Wrapped, w.binding())
	if err != nil || len(secret) != keySize {
		return dataKey{}, damaged(w.object(), fmt.Errorf("its bytes are not what key %s has wrapped", w.Key))
	}
	return dataKey{id: w.ID, origin: w.Origin, by: fingerprint(key), secret: secret, repository: w.Repository}, nil
}

// refused says which key is needed, and which are there.
func (w wrap) refused(keys Keys) error {
	if other := keys.byName[w.Key]; other != nil {
		return failf(ErrWrongKey, "the encryption key %s is not the one that the repository was encrypted with: its fingerprint is %s, and %s is expected",
			w.Key, fingerprint(other), w.Fingerprint)
	}
	return failf(ErrKeyNotFound, "the repository is encrypted with key %s (fingerprint %s), but only these keys are available: %s", w.Key, w.Fingerprint, keys)
}

// damaged is an object that is not what was stored.
func damaged(key string, err error) error {
	return fmt.Errorf("%w: object %s: %w", objstore.ErrCorrupt, key, err)
}

// wraps lists the names of what wraps each data key.
func wraps(ctx context.Context, store objstore.Store) (map[string][]string, error) {
	found, listed := map[string][]string{}, 0
	for info, err := range store.List(ctx, Prefix, "") {
		if err != nil {
			return nil, err
		}
		if listed++; listed > maxWraps {
			return nil, damaged(Prefix, fmt.Errorf("it has more than %d objects, which is more than is read", maxWraps))
		}
		id, key, ok := strings.Cut(strings.TrimPrefix(info.Key, Prefix), "/")
		if ok && validDataKey(id) && keyName.MatchString(key) {
			found[id] = append(found[id], key)
		}
	}
	return found, nil
}
