package sealed

import (
	"context"
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
)

// readState reads the marker.
func readState(ctx context.Context, store objstore.Store) (state, error) {
	marker, err := layout.ReadMarker(ctx, store)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return unmarked, nil
	case err != nil:
		return unmarked, err
	case marker.Encryption == "":
		return plain, nil
	}
	return encrypted, nil
}

// mark marks an empty place as an encrypted repository. Of several at once one is first, and decides.
func mark(ctx context.Context, store objstore.Store, now time.Time) error {
	body, err := json.MarshalIndent(layout.Marker{
		Format: format.Current, Created: now.UTC(), Encryption: layout.EncryptionAES,
	}, "", "  ")
	if err != nil {
		return err
	}
	err = store.Put(ctx, markerKey, append(body, '\n'), objstore.PutOptions{IfAbsent: true})
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return err
	}
	found, err := readState(ctx, store)
	if err == nil && found != encrypted {
		err = errPlain()
	}
	return err
}

// refuseData refuses a place without a marker that has data all the same.
func refuseData(ctx context.Context, store objstore.Store) error {
	for _, err := range store.Folders(ctx, "lineages/") {
		if err == nil {
			err = errPlain()
		}
		return err
	}
	return nil
}

func errPlain() error {
	return failf(ErrPlain, "the repository is not encrypted, and can't become so: objects that are there would stay as they are. "+
		"Use another prefix for the encrypted one, or take spec.encryption away")
}

func errEncrypted() error {
	return failf(ErrKeyNotFound, "the repository is encrypted, and no key is given: name the Secret with its keys in spec.encryption.secretName")
}
