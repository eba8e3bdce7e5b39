package backup

import (
	"iter"
	"math/bits"

	"howdah.dev/howdah/pkg/postgres"
)

// blockSet is which blocks of one file are to be read: a bit for each.
type blockSet struct {
	blocks uint32
	words  []uint64 // none while the set is empty
}

// blocksOf is how many blocks a file of that size has, the last of which may be short.
func blocksOf(size int64) uint32 {
	return uint32((size + postgres.PageSize - 1) / postgres.PageSize)
}

// add adds the blocks from one up to, but not including, another.
func (s *blockSet) add(from, to uint32) {
	to = min(to, s.blocks)
	if from >= to {
		return
	}
	if s.words == nil {
		s.words = make([]uint64, (s.blocks+63)/64)
	}
	for ; from < to && from%64 != 0; from++ {
		s.words[from/64] |= 1 << (from % 64)
	}
	for ; to-from >= 64; from += 64 {
		s.words[from/64] = ^uint64(0)
	}
	for ; from < to; from++ {
		s.words[from/64] |= 1 << (from % 64)
	}
}

func (s *blockSet) count() (n uint32) {
	for _, word := range s.words {
		n += uint32(bits.OnesCount64(word))
	}
	return n
}

// next is the first block from at on that is in the set, or isn't, as wanted; the number of blocks if there is none.
func (s *blockSet) next(at uint32, in bool) uint32 {
	if s.words == nil {
		if in {
			return s.blocks
		}
		return at
	}
	for at < s.blocks {
		word := s.words[at/64]
		if !in {
			word = ^word
		}
		if word >>= at % 64; word != 0 {
			return min(s.blocks, at+uint32(bits.TrailingZeros64(word)))
		}
		at = (at/64 + 1) * 64
	}
	return s.blocks
}

// runs are the stretches of blocks that are in the set, or that aren't.
func (s *blockSet) runs(in bool) iter.Seq2[uint32, uint32] {
	return func(yield func(from, to uint32) bool) {
		for from := s.next(0, in); from < s.blocks; {
			to := s.next(from, !in)
			if !yield(from, to) {
				return
			}
			from = s.next(to, in)
		}
	}
}
