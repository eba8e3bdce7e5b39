package backup

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// names are different ones.
type names struct {
	all   map[string]bool
	bytes int
}

// maxNames bounds what names take: an incremental backup points at the packs of some thousands, and a bucket is not trusted.
const maxNames = 2 << 20

func (n *names) add(name string) error {
	if n.all[name] {
		return nil
	}
	if n.all == nil {
		n.all = map[string]bool{}
	}
	if n.bytes += len(name); n.bytes > maxNames {
		return fmt.Errorf("%w: the names of the backups at whose packs it points have more than %d MiB", ErrTooLarge, maxNames>>20)
	}
	n.all[strings.Clone(name)] = true
	return nil
}

// after are the names in order, after one that comes first.
func (n *names) after(first string) []string {
	sorted := slices.Sorted(maps.Keys(n.all))
	return append([]string{first}, slices.DeleteFunc(sorted, func(name string) bool { return name == first })...)
}

// usedPacks are the packs that manifests point at. What it keeps of each is a number, so that very many fit into the memory: a pack that
// has the number of another counts as used, too.
type usedPacks struct {
	*room
	seed maphash.Seed
	all  map[uint64]struct{}
}

// largeSets lets this process have one set of very many packs at a time: a controller deletes from several lineages at once.
var largeSets = make(chan struct{}, 1)

// usualPacks are as many as most lineages have: terabytes.
const usualPacks = 1 << 16

// room is what a set of packs has in memory. Free gives it back.
type room struct {
	ctx  context.Context
	held bool
}

// need waits until there is room for this many.
func (r *room) need(packs int) error {
	if r.held || packs <= usualPacks {
		return nil
	}
	select {
	case largeSets <- struct{}{}:
		r.held = true
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

func (r *room) free() {
	if r.held {
		<-largeSets
		r.held = false
	}
}

// maxUsed bounds how many packs the backups of a lineage point at: 60 TiB in the bucket have as many.
const maxUsed = 7 << 18

func newUsedPacks(ctx context.Context) usedPacks {
	return usedPacks{room: &room{ctx: ctx}, seed: maphash.MakeSeed(), all: map[uint64]struct{}{}}
}

// packNumber is the same for the same pack.
func packNumber(seed maphash.Seed, backup, name string) uint64 {
	h := maphash.Hash{}
	h.SetSeed(seed)
	_, _ = h.WriteString(backup)
	_ = h.WriteByte('/')
	_, _ = h.WriteString(name)
	return h.Sum64()
}

// addAll adds the packs of a header that was read with them.
func (u usedPacks) addAll(header *Header) error {
	for i := range header.Packs {
		if err := u.add(&header.Packs[i]); err != nil {
			return err
		}
	}
	return nil
}

// add is a visitPack.
func (u usedPacks) add(pack *Pack) error {
	u.all[packNumber(u.seed, pack.Backup, pack.Name)] = struct{}{}
	if len(u.all) > maxUsed {
		return fmt.Errorf("%w: the backups of the lineage point at more than %d packs, which is more than is read", ErrTooLarge, maxUsed)
	}
	return u.need(len(u.all))
}

func (u usedPacks) has(backup, name string) bool {
	_, used := u.all[packNumber(u.seed, backup, name)]
	return used
}
