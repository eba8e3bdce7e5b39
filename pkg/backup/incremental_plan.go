package backup

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	// manyParts is how many parts may be told apart, beside two for each frame of a full backup: with more of them the
	// manifest would not fit into memory, and the extents with the most are read whole. An extent of three parts or less
	// is never worth that.
	manyParts    = 1 << 20
	extentBlocks = minFrame / postgres.PageSize
	fewParts     = 3
	// A file of which more than so much was changed is read whole, and a frame of which less than so much is still needed
	// is not referred to any more: so a restore reads little that it throws away, however long the chain.
	mostChanged   = 0.6
	leastOfAFrame = 0.34
	// leastPacks of other backups may always be referred to, and one more for each packPer bytes of the database.
	leastPacks = 256
	packPer    = 8 << 20
)

// reuse decides what of the paired files is taken from older backups.
type reuse struct {
	*base
	paired []*entry
}

// plan fills in what each entry keeps; what it doesn't is read.
func (r *reuse) plan(total int64, most int) {
	for _, e := range r.paired {
		if e.base != nil && float64(e.changed.count()) > mostChanged*float64(e.changed.blocks) {
			e.base = nil
		}
	}
	r.thin(most + 2*int(total/frameSize(total)))
	frames := r.liveFrames()
	r.release(func(f *Frame) bool {
		live, counted := frames[frameID(f)]
		return counted && float64(live) < leastOfAFrame*float64(f.Content)
	})
	lean := r.leanPacks(leastPacks + int(total/packPer))
	r.release(func(f *Frame) bool { return lean[f.Pack] })
	for _, e := range r.paired {
		e.keep()
	}
	for i := range r.Files { // a large database has many
		r.Files[i].Parts = nil
	}
}

// thin makes few enough parts. What is kept counts, too: each backup of a chain would add to it.
func (r *reuse) thin(most int) {
	var extents [extentBlocks + 1]int // by their number of parts
	parts := 0
	for _, e := range r.paired {
		for _, n := range e.crowds() {
			extents[min(n, extentBlocks)]++
			parts += n
		}
	}
	crowd, quota := len(extents), 0 // extents with more parts are read whole, and this many with just as many
	for parts > most && crowd > fewParts+1 {
		crowd--
		saved := crowd - 2 // it is one part, and cuts another in two
		quota = min(extents[crowd], (parts-most+saved-1)/saved)
		parts -= quota * saved
	}
	for _, e := range r.paired {
		for i, n := range e.crowds() {
			if n = min(n, extentBlocks); n < crowd || n == crowd && quota == 0 {
				continue
			}
			if n == crowd {
				quota--
			}
			e.changed.add(uint32(i)*extentBlocks, uint32(i+1)*extentBlocks)
		}
	}
}

// crowds are how many parts begin in each extent of a file.
func (e *entry) crowds() []int {
	if e.base == nil {
		return nil
	}
	counts := make([]int, e.changed.blocks/extentBlocks+1)
	for from := range e.changed.runs(true) {
		counts[from/extentBlocks]++
	}
	for p := range e.keeps() {
		counts[p.FileOffset/minFrame]++
	}
	return counts
}

// keep makes a list of what is kept, in no more memory than it needs, and lets go of the parent's.
func (e *entry) keep() {
	count := 0
	for range e.keeps() {
		count++
	}
	e.kept = slices.AppendSeq(make([]Part, 0, count), e.keeps())
	e.reach = e.keptEnd()
	if e.base != nil {
		e.base.Parts = nil
	}
}

// frameID tells frames of one manifest apart.
func frameID(f *Frame) uint64 { return uint64(f.Pack)<<32 | uint64(f.Offset) }

// liveFrames counts the bytes that are still needed of each frame, but for those that are needed whole by one file.
func (r *reuse) liveFrames() map[uint64]int64 {
	live := map[uint64]int64{}
	for _, e := range r.paired {
		for p := range e.keeps() {
			if p.Length != p.Frame.Content {
				live[frameID(p.Frame)] += int64(p.Length)
			}
		}
	}
	return live
}

// leanPacks are the packs of which least is needed, if there are more than this many.
func (r *reuse) leanPacks(most int) map[uint32]bool {
	needed := map[uint32]int64{}
	for _, e := range r.paired {
		for p := range e.keeps() {
			needed[p.Frame.Pack] += int64(p.Length)
		}
	}
	if len(needed) <= most {
		return nil
	}
	byNeed := slices.SortedFunc(maps.Keys(needed), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(needed[a], needed[b]), cmp.Compare(a, b))
	})
	lean := map[uint32]bool{}
	for _, pack := range byNeed[:len(needed)-most] {
		lean[pack] = true
	}
	return lean
}

// release has everything read anew that lies in such frames.
func (r *reuse) release(such func(*Frame) bool) {
	for _, e := range r.paired {
		var gone []Part
		for p := range e.keeps() {
			if such(p.Frame) {
				gone = append(gone, p)
			}
		}
		for _, p := range gone {
			e.changed.add(whole(p.FileOffset), blocksOf(p.FileOffset+int64(p.Length)))
		}
	}
}

// keeps are the parts of the parent's file, cut down to what was not changed. What the parent leaves out is zero, and
// stays left out.
func (e *entry) keeps() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		if e.base == nil {
			return
		}
		parts := e.base.Parts
		for from, to := range e.changed.runs(false) {
			start, end := int64(from)*postgres.PageSize, int64(to)*postgres.PageSize
			for len(parts) > 0 && parts[0].FileOffset+int64(parts[0].Length) <= start {
				parts = parts[1:]
			}
			for _, p := range parts {
				if p.FileOffset >= end {
					break
				}
				if !yield(p.clip(start, end)) {
					return
				}
			}
		}
	}
}

// keptEnd is the end of the last run that was not changed: what the parent leaves out may reach up to there.
func (e *entry) keptEnd() (end int64) {
	if e.base == nil {
		return 0
	}
	for _, to := range e.changed.runs(false) {
		end = int64(to) * postgres.PageSize
	}
	return end
}

// clip is what of a part lies between two offsets in the file; it overlaps them.
func (p Part) clip(start, end int64) Part {
	from, to := max(start, p.FileOffset), min(end, p.FileOffset+int64(p.Length))
	p.Skip += uint32(from - p.FileOffset)
	p.FileOffset, p.Length = from, uint32(to-from)
	return p
}

// wanted are the runs of bytes that are to be read of a file.
func (e *entry) wanted() iter.Seq2[int64, int64] {
	return func(yield func(from, to int64) bool) {
		if e.base == nil {
			if e.Size > 0 {
				yield(0, e.Size)
			}
			return
		}
		for from, to := range e.changed.runs(true) {
			if !yield(int64(from)*postgres.PageSize, min(e.Size, int64(to)*postgres.PageSize)) {
				return
			}
		}
	}
}

// adoptKept adds what the entries keep to what was copied of them, with the parent's packs after this backup's own. It
// returns all packs.
func (b *base) adoptKept(entries []*entry, own []Pack) []Pack {
	packs, index := slices.Clone(own), map[uint32]uint32{}
	const moved = 1 << 31 // marks the frames that know their pack's new index: parts share them
	for _, e := range entries {
		for _, p := range e.kept {
			if p.Frame.Pack&moved != 0 {
				continue
			}
			at, known := index[p.Frame.Pack]
			if !known {
				at = uint32(len(packs))
				index[p.Frame.Pack] = at
				packs = append(packs, b.Packs[p.Frame.Pack])
			}
			p.Frame.Pack = at | moved
		}
	}
	for _, e := range entries {
		for _, p := range e.kept {
			p.Frame.Pack &^= moved
		}
		e.Parts = append(slices.Grow(e.Parts, len(e.kept)), e.kept...)
		e.kept = nil
	}
	return packs
}
