package sealed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

const markerKey = layout.MarkerKey

// state is what the marker says of a repository.
type state int

const (
	unmarked state = iota // nothing is there yet
	plain
	encrypted
	signed
)

// readState reads the marker, with the identity of the repository.
func readState(ctx context.Context, store objstore.Store) (state, string, error) {
	marker, err := layout.ReadMarker(ctx, store)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return unmarked, "", nil
	case err != nil:
		return unmarked, "", err
	case marker.Encryption != "":
		return encrypted, marker.ID, nil
	case marker.Authentication != "":
		return signed, marker.ID, nil
	}
	return plain, "", nil
}

// cipher of the objects of a repository.
func (s state) cipher() byte {
	if s == signed {
		return cipherHMAC
	}
	return cipherAES
}

// newIdentity is that of a new repository.
func newIdentity() string {
	var id [identitySize / 2]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// mark marks an empty place as a repository of this kind. Of several at once one is first, and decides: the marker that is there then
// may have another identity.
func mark(ctx context.Context, store objstore.Store, kind state, identity string, now time.Time) (string, error) {
	marker := layout.Marker{Format: format.Current, Created: now.UTC(), ID: identity}
	if kind == signed {
		marker.Authentication = layout.AuthenticationHMAC
	} else {
		marker.Encryption = layout.EncryptionAES
	}
	body, err := json.MarshalIndent(marker, "", "  ")
	if err != nil {
		return "", err
	}
	err = store.Put(ctx, markerKey, append(body, '\n'), objstore.PutOptions{IfAbsent: true})
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return "", err
	}
	found, there, err := readState(ctx, store)
	if err == nil {
		err = kind.refuse(found)
	}
	return there, err
}

// refuse says why a repository of one kind is not opened as one of another.
func (s state) refuse(found state) error {
	switch {
	case s == found:
		return nil
	case s == encrypted:
		return errPlain()
	case s == signed && found == encrypted:
		return failf(ErrUnsigned, "the repository is encrypted, and not signed only: write spec.encryption instead of spec.authentication")
	case s == signed:
		return errUnsigned()
	}
	return nil
}

// refuseData refuses a place without a marker that has data all the same.
func refuseData(ctx context.Context, store objstore.Store, kind state) error {
	for _, err := range store.Folders(ctx, "lineages/") {
		if err == nil {
			err = kind.refuse(plain)
		}
		return err
	}
	return nil
}

func errPlain() error {
	return failf(ErrPlain, "the repository is not encrypted, and can't be encrypted later: existing objects would stay unencrypted. "+
		"Use another prefix for the encrypted one, or remove spec.encryption")
}

func errUnsigned() error {
	return failf(ErrUnsigned, "the repository is not signed, and can't be signed later: existing objects would stay unsigned. "+
		"Use another prefix for the signed one, or remove spec.authentication")
}

func errSigned() error {
	return failf(ErrKeyNotFound, "the repository is signed, and no key is given: name the Secret with its keys in spec.authentication.secretName")
}

func errEncrypted() error {
	return failf(ErrKeyNotFound, "the repository is encrypted, and no key is given: name the Secret with its keys in spec.encryption.secretName")
}
