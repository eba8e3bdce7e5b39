package backup

import (
	"context"
	"errors"
	"fmt"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// Committed reads the header of a backup whose packs are all there, in their sizes. objstore.ErrNotFound: there is none, or
// only a manifest that arrived after its packs had been cleared away: its writer was killed, and the server was late.
func Committed(ctx context.Context, store objstore.Store, lineage, id string) (*Header, error) {
	header, err := ReadHeader(ctx, store, lineage, id)
	if err != nil {
		return nil, err
	}
	return header, withPacks(ctx, store, header)
}

// withPacks says whether the packs of a backup are there; objstore.ErrNotFound: not all of them.
func withPacks(ctx context.Context, store objstore.Store, header *Header) error {
	err := checkPacks(ctx, store, header)
	if errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w: %w", objstore.ErrNotFound, err)
	}
	return err
}

// readWhole reads a manifest whose packs are there.
func readWhole(ctx context.Context, store objstore.Store, lineage, id string) (*Manifest, error) {
	m, err := ReadManifest(ctx, store, lineage, id)
	if err != nil {
		return nil, err
	}
	return m, withPacks(ctx, store, &m.Header)
}

// missing is the size of a pack that is not there.
const missing = -1

// checkPacks makes sure that every pack that a manifest points at is there, in its size.
func checkPacks(ctx context.Context, store objstore.Store, header *Header) error {
	sizes := make(map[string]int64, len(header.Packs)) // of what the manifest names: a list may be endless
	backups := map[string]bool{}
	for _, pack := range header.Packs {
		backups[pack.Backup] = true
		sizes[layout.PackKey(header.Lineage, pack.Backup, pack.Name)] = missing
	}
	for id := range backups {
		for info, err := range store.List(ctx, layout.BackupPacksPrefix(header.Lineage, id), "") {
			if err != nil {
				return err
			}
			if _, named := sizes[info.Key]; named {
				sizes[info.Key] = info.Size
			}
		}
	}
	for _, pack := range header.Packs {
		key := layout.PackKey(header.Lineage, pack.Backup, pack.Name)
		size := sizes[key]
		if size == missing {
			return &CorruptError{Object: key, Detail: "it was uploaded and is not there", Err: objstore.ErrNotFound}
		}
		if size != pack.Size {
			return &CorruptError{Object: key, Detail: fmt.Sprintf("it has %d bytes instead of %d", size, pack.Size)}
		}
	}
	return nil
}
