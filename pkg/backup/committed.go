package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"path"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// Committed reads the outline of a backup whose packs are all there, in their sizes. objstore.ErrNotFound: there is none, or
// only a manifest that arrived after its packs had been cleared away: its writer was killed, and the server was late.
func Committed(ctx context.Context, store objstore.Store, lineage, id string) (*Header, error) {
	named := newNamedPacks(ctx)
	defer named.free()
	header, err := scanHeader(ctx, store, lineage, id, named.add)
	if err != nil {
		return nil, err
	}
	err = named.find(ctx, store, lineage)
	if err == nil && len(named.sizes) > 0 {
		_, err = scanHeader(ctx, store, lineage, id, func(pack *Pack) error { return named.name(lineage, pack) })
	}
	if err != nil {
		return nil, gone(err)
	}
	return header, nil
}

// withPacks says whether the packs of a backup are there; objstore.ErrNotFound: not all of them.
func withPacks(ctx context.Context, store objstore.Store, header *Header) error {
	return gone(checkPacks(ctx, store, header))
}

// gone says objstore.ErrNotFound of packs that are not as they should be.
func gone(err error) error {
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

// checkPacks makes sure that every pack that a manifest points at is there, in its size.
func checkPacks(ctx context.Context, store objstore.Store, header *Header) error {
	named := newNamedPacks(ctx)
	defer named.free()
	for i := range header.Packs {
		if err := named.add(&header.Packs[i]); err != nil {
			return err
		}
	}
	if err := named.find(ctx, store, header.Lineage); err != nil || len(named.sizes) == 0 {
		return err
	}
	for i := range header.Packs {
		if err := named.name(header.Lineage, &header.Packs[i]); err != nil {
			return err
		}
	}
	return nil
}

// namedPacks are the packs that a manifest names, by their numbers, until they are found. Their names may take much memory.
type namedPacks struct {
	*room
	seed    maphash.Seed
	sizes   map[uint64]uint32
	backups names
}

func newNamedPacks(ctx context.Context) *namedPacks {
	return &namedPacks{room: &room{ctx: ctx}, seed: maphash.MakeSeed(), sizes: map[uint64]uint32{}}
}

// add is a visitPack.
func (n *namedPacks) add(pack *Pack) error {
	at, size := packNumber(n.seed, pack.Backup, pack.Name), uint32(pack.Size)
	if other, twice := n.sizes[at]; twice && other != size {
		return &CorruptError{Object: pack.Name, Detail: "the manifest names it twice, with two sizes"}
	}
	if n.sizes[at] = size; len(n.sizes) > maxUsed {
		return fmt.Errorf("%w: its manifest names more than %d packs", ErrTooLarge, maxUsed)
	}
	return errors.Join(n.need(len(n.sizes)), n.backups.add(pack.Backup))
}

// find crosses out what is there in its size. A list may be endless, and is not kept.
func (n *namedPacks) find(ctx context.Context, store objstore.Store, lineage string) error {
	for id := range n.backups.all {
		for info, err := range store.List(ctx, layout.BackupPacksPrefix(lineage, id), "") {
			if err != nil {
				return err
			}
			at := packNumber(n.seed, id, path.Base(info.Key))
			size, wanted := n.sizes[at]
			if wanted && int64(size) != info.Size {
				return &CorruptError{Object: info.Key, Detail: fmt.Sprintf("it has %d bytes instead of %d", info.Size, size)}
			}
			delete(n.sizes, at)
		}
	}
	return nil
}

// name says of a pack that was not found that it is missing.
func (n *namedPacks) name(lineage string, pack *Pack) error {
	if _, missing := n.sizes[packNumber(n.seed, pack.Backup, pack.Name)]; missing {
		return &CorruptError{Object: layout.PackKey(lineage, pack.Backup, pack.Name), Detail: "it was uploaded and is not there", Err: objstore.ErrNotFound}
	}
	return nil
}
