package backup

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
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

// packNumbers are what is kept of packs instead of their names. A lineage may have any number of them: what doesn't fit into the memory at
// once is looked at in several passes, each over a range of numbers.
type packNumbers struct {
	seed        maphash.Seed
	first, last uint64
}

func newPackNumbers() packNumbers {
	return packNumbers{seed: maphash.MakeSeed(), last: math.MaxUint64}
}

// of is the number of a pack, and whether it is in the range.
func (p *packNumbers) of(backup, name string) (number uint64, is bool) {
	h := maphash.Hash{}
	h.SetSeed(p.seed)
	_, _ = h.WriteString(backup)
	_ = h.WriteByte('/')
	_, _ = h.WriteString(name)
	number = h.Sum64()
	return number, p.first <= number && number <= p.last
}

// halve leaves the upper half to a later pass.
func (p *packNumbers) halve() { p.last = p.first + (p.last-p.first)/2 }

// next continues to the next range, which is as long, or longer if this one had few packs. False: there is none.
func (p *packNumbers) next(packs int) bool {
	if p.last == math.MaxUint64 {
		return false
	}
	length := p.last - p.first
	if packs < packsAtATime/4 {
		length = 2*min(length, math.MaxUint64/2) + 1
	}
	p.first = p.last + 1
	p.last = p.first + min(length, math.MaxUint64-p.first)
	return true
}

// packsAtATime is how many packs one pass looks at, in 8 MiB or, with their sizes, 16: those of 8 TiB as a rule. Tests have less.
var packsAtATime = 1 << 20

// firstPacks is for how many packs there is room at first.
const firstPacks = 1 << 10

// grown makes room for more, if there isn't much.
func grown[T any](all []T) []T {
	if len(all) <= cap(all)/2 && cap(all) > 0 {
		return all
	}
	return slices.Grow(all, min(max(2*cap(all), firstPacks), packsAtATime)-len(all))
}

// usedPacks are the packs that manifests point at and whose numbers are in a range. A pack that has the number of another counts as used,
// too.
type usedPacks struct {
	packNumbers
	all    []uint64
	sorted int // this many of them are in order
}

// eachRangeOfPacks calls fill and then do with the used packs of one range of numbers after the other.
func eachRangeOfPacks(fill, do func(*usedPacks) error) error {
	return eachRangeOfPacksFrom(newPackNumbers(), fill, do)
}

// eachRangeOfPacksFrom is eachRangeOfPacks from one range on.
func eachRangeOfPacksFrom(numbers packNumbers, fill, do func(*usedPacks) error) error {
	used := &usedPacks{packNumbers: numbers}
	for more := true; more; more = used.next(len(used.all)) {
		used.all, used.sorted = used.all[:0], 0
		if err := fill(used); err != nil {
			return err
		}
		used.sort()
		if err := do(used); err != nil {
			return err
		}
	}
	return nil
}

// addAll adds the packs of a header that was read with them.
func (u *usedPacks) addAll(header *Header) {
	for i := range header.Packs {
		_ = u.add(&header.Packs[i])
	}
}

// add is a visitPack.
func (u *usedPacks) add(pack *Pack) error {
	number, is := u.of(pack.Backup, pack.Name)
	if !is || u.has(number) {
		return nil
	}
	if len(u.all) == cap(u.all) {
		u.makeRoom()
	}
	if number <= u.last {
		u.all = append(u.all, number)
	}
	return nil
}

func (u *usedPacks) makeRoom() {
	u.sort() // many are there several times
	if cap(u.all) < packsAtATime {
		u.all = grown(u.all)
		return
	}
	for len(u.all) > packsAtATime/4*3 {
		u.halve()
		end, _ := slices.BinarySearch(u.all, u.last+1)
		u.all, u.sorted = u.all[:end], end
	}
}

func (u *usedPacks) sort() {
	slices.Sort(u.all)
	u.all = slices.Compact(u.all)
	u.sorted = len(u.all)
}

func (u *usedPacks) has(number uint64) bool {
	_, has := slices.BinarySearch(u.all[:u.sorted], number)
	return has
}

// unused says that nothing points at a pack. It says so in the pass over its range only.
func (u *usedPacks) unused(backup, name string) bool {
	number, is := u.of(backup, name)
	return is && !u.has(number)
}
