package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// Committed reads the outline of a backup whose packs are all there, in their sizes, and whose manifest is as it was written.
// objstore.ErrNotFound: there is none, or only a manifest that arrived after its packs had been cleared away: its writer was killed, and
// the server was late.
func Committed(ctx context.Context, store objstore.Store, lineage, id string) (*Header, error) {
	var header *Header
	err := checkNamed(ctx, store, lineage, func(visit visitPack) (err error) {
		header, err = scanHeader(ctx, store, lineage, id, visit)
		return err
	})
	if err == nil {
		err = checkList(ctx, store, header)
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

// gone says objstore.ErrNotFound of what is not as it should be.
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
	return checkNamed(ctx, store, header.Lineage, func(visit visitPack) error {
		for i := range header.Packs {
			if err := visit(&header.Packs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkNamed makes sure that every pack is there that a manifest names, as read hands them out, as often as it is asked.
func checkNamed(ctx context.Context, store objstore.Store, lineage string, read func(visitPack) error) error {
	named := &namedPacks{packNumbers: newPackNumbers()}
	for more := true; more; more = named.next(len(named.all)) {
		named.all = named.all[:0]
		if err := read(named.add); err != nil {
			return err
		}
		named.sort()
		if err := named.find(ctx, store, lineage); err != nil {
			return err
		}
		if slices.ContainsFunc(named.all, namedPack.wrong) {
			return read(func(pack *Pack) error { return named.explain(lineage, pack) })
		}
	}
	return nil
}

// namedPacks are the packs that a manifest names and whose numbers are in a range.
type namedPacks struct {
	packNumbers
	all     []namedPack
	backups names
}

type namedPack struct {
	number uint64
	size   uint32
	there  bool
	twice  bool // with another size, too
}

func (p namedPack) wrong() bool { return p.twice || !p.there }

func compareNumbers(a namedPack, number uint64) int { return cmp.Compare(a.number, number) }

// add is a visitPack.
func (n *namedPacks) add(pack *Pack) error {
	if err := n.backups.add(pack.Backup); err != nil {
		return err
	}
	number, is := n.of(pack.Backup, pack.Name)
	if !is {
		return nil
	}
	if len(n.all) == cap(n.all) {
		n.makeRoom()
	}
	if number <= n.last {
		n.all = append(n.all, namedPack{number: number, size: uint32(pack.Size)})
	}
	return nil
}

func (n *namedPacks) makeRoom() {
	if cap(n.all) < packsAtATime {
		n.all = grown(n.all)
		return
	}
	for n.sort(); len(n.all) > packsAtATime/4*3; {
		n.halve()
		end, _ := slices.BinarySearchFunc(n.all, n.last+1, compareNumbers)
		n.all = n.all[:end]
	}
}

func (n *namedPacks) sort() {
	slices.SortFunc(n.all, func(a, b namedPack) int { return cmp.Compare(a.number, b.number) })
	for i := len(n.all) - 2; i >= 0; i-- {
		a, b := &n.all[i], n.all[i+1]
		a.twice = a.twice || a.number == b.number && (a.size != b.size || b.twice)
	}
	n.all = slices.CompactFunc(n.all, func(a, b namedPack) bool { return a.number == b.number })
}

// named finds a pack, or nil.
func (n *namedPacks) named(backup, name string) *namedPack {
	number, _ := n.of(backup, name)
	if i, is := slices.BinarySearchFunc(n.all, number, compareNumbers); is {
		return &n.all[i]
	}
	return nil
}

// find notes what is there in its size. A list may be endless, and is not kept.
func (n *namedPacks) find(ctx context.Context, store objstore.Store, lineage string) error {
	for id := range n.backups.all {
		for info, err := range store.List(ctx, layout.BackupPacksPrefix(lineage, id), "") {
			if err != nil {
				return err
			}
			pack := n.named(id, path.Base(info.Key))
			if pack == nil {
				continue
			}
			if int64(pack.size) != info.Size {
				return &CorruptError{Object: info.Key, Detail: fmt.Sprintf("it has %d bytes instead of %d", info.Size, pack.size)}
			}
			pack.there = true
		}
	}
	return nil
}

// explain says what is wrong with a pack, if something is.
func (n *namedPacks) explain(lineage string, pack *Pack) error {
	named := n.named(pack.Backup, pack.Name)
	switch {
	case named == nil:
	case named.twice:
		return &CorruptError{Object: pack.Name, Detail: "the manifest names it twice, with two sizes"}
	case !named.there:
		return &CorruptError{Object: layout.PackKey(lineage, pack.Backup, pack.Name), Detail: "it was uploaded and is not there", Err: objstore.ErrNotFound}
	}
	return nil
}
