package postgres

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
)

// WALSummariesDir is where a server of 17 or later with summarize_wal keeps its WAL summaries, below the data directory.
const WALSummariesDir = "pg_wal/summaries"

// ErrWALSummary is a WAL summary that is damaged, or of another form than 17 and 18 write.
var ErrWALSummary = errors.New("bad WAL summary")

// WALSummary is the name of a file that tells which blocks the WAL of a timeline changed between two positions.
type WALSummary struct {
	Timeline   uint32
	Start, End LSN
}

const walSummarySuffix = ".summary"

// ParseWALSummary reads the name of a file of WALSummariesDir.
func ParseWALSummary(name string) (WALSummary, error) {
	digits, ok := strings.CutSuffix(name, walSummarySuffix)
	var words [5]uint64
	if !ok || len(digits) != 8*len(words) {
		return WALSummary{}, fmt.Errorf("%w: the name %q", ErrWALSummary, name)
	}
	for i := range words {
		word := digits[8*i : 8*i+8]
		n, err := strconv.ParseUint(word, 16, 32)
		if err != nil || strings.ToUpper(word) != word {
			return WALSummary{}, fmt.Errorf("%w: the name %q", ErrWALSummary, name)
		}
		words[i] = n
	}
	return WALSummary{Timeline: uint32(words[0]), Start: LSN(words[1]<<32 | words[2]), End: LSN(words[3]<<32 | words[4])}, nil
}

// Name of its file.
func (s WALSummary) Name() string {
	return fmt.Sprintf("%08X%08X%08X%08X%08X%s", s.Timeline, uint32(s.Start>>32), uint32(s.Start), uint32(s.End>>32), uint32(s.End), walSummarySuffix)
}

// Forks of a relation, as WAL numbers them.
const (
	MainFork int32 = iota
	FreeSpaceFork
	VisibilityFork
	InitFork
)

// RelationFork is a fork of a relation, as WAL names it. Relation 0 stands for the whole database.
type RelationFork struct {
	Tablespace, Database, Relation uint32
	Fork                           int32
}

// The form of a summary (src/common/blkreftable.c): a magic number; for each fork an entry, the sizes of its chunks and
// the chunks; an entry of zeros; and the CRC-32C of all before. A chunk is about 65536 blocks: an array of their
// offsets, or a map of bits where that would be no shorter.
const (
	walSummaryMagic = 0x652b137b
	summaryEntry    = 24 // bytes
	chunkBlocks     = 1 << 16
	chunkWords      = chunkBlocks / 16 // 16-bit words of a chunk that is a map of bits
)

// BlockChanges says which blocks of relations were changed, after one or several WAL summaries.
type BlockChanges map[RelationFork]*ForkChanges

// ForkChanges says which blocks of a fork were changed.
type ForkChanges struct {
	// Limit is the first block that was cut off or made anew: it and all after it are as good as changed. NoLimit if none.
	Limit  uint32
	chunks map[uint32]*blockChunk
}

// NoLimit is the Limit of a fork that was never cut off.
const NoLimit = 1<<32 - 1

// blockChunk holds 65536 blocks: few of them as a list, for most relations are small, more as bits.
type blockChunk struct {
	list []uint16
	bits []uint16 // chunkWords long, if there
}

const longList = 512

func (c *blockChunk) add(offset uint16) {
	if c.bits == nil && len(c.list) < longList {
		c.list = append(c.list, offset)
		return
	}
	if c.bits == nil {
		c.toBits()
	}
	c.bits[offset/16] |= 1 << (offset % 16)
}

func (c *blockChunk) toBits() {
	c.bits = make([]uint16, chunkWords)
	for _, offset := range c.list {
		c.bits[offset/16] |= 1 << (offset % 16)
	}
	c.list = nil
}

func (c *blockChunk) each(do func(offset uint16)) {
	for _, offset := range c.list {
		do(offset)
	}
	for i, word := range c.bits {
		for bit := 0; word != 0; bit, word = bit+1, word>>1 {
			if word&1 == 1 {
				do(uint16(i*16 + bit))
			}
		}
	}
}

// Each calls do for every changed block from first up to, but not including, end. It may name one twice.
func (f *ForkChanges) Each(first, end uint32, do func(block uint32)) {
	for number, chunk := range f.chunks {
		chunk.each(func(offset uint16) {
			if block := number*chunkBlocks + uint32(offset); block >= first && block < end {
				do(block)
			}
		})
	}
	for block := max(first, f.Limit); f.Limit != NoLimit && block < end; block++ {
		do(block)
	}
}

// Add takes in one summary. After an error part of it may have been taken in.
func (b BlockChanges) Add(summary io.Reader) error {
	r := &summaryReader{from: bufio.NewReaderSize(summary, 64<<10)}
	if r.uint32() != walSummaryMagic {
		return r.failed("it does not begin as one")
	}
	for r.err == nil {
		entry := r.next(summaryEntry)
		if r.err != nil {
			break
		}
		if slices.Max(entry) == 0 {
			return r.end()
		}
		fork := RelationFork{
			Tablespace: binary.LittleEndian.Uint32(entry), Database: binary.LittleEndian.Uint32(entry[4:]),
			Relation: binary.LittleEndian.Uint32(entry[8:]), Fork: int32(binary.LittleEndian.Uint32(entry[12:])),
		}
		limit, chunks := binary.LittleEndian.Uint32(entry[16:]), binary.LittleEndian.Uint32(entry[20:])
		if chunks > chunkBlocks {
			return r.failed("an entry has too many chunks")
		}
		b.fork(fork, limit).read(r, int(chunks))
	}
	return r.failed("it ends early")
}

func (b BlockChanges) fork(fork RelationFork, limit uint32) *ForkChanges {
	changes := b[fork]
	if changes == nil {
		changes = &ForkChanges{Limit: NoLimit, chunks: map[uint32]*blockChunk{}}
		b[fork] = changes
	}
	changes.Limit = min(changes.Limit, limit)
	return changes
}

// read takes in the chunks of an entry.
func (f *ForkChanges) read(r *summaryReader, count int) {
	var sizes []uint16
	for range count {
		if sizes = append(sizes, r.uint16()); r.err != nil {
			return
		}
	}
	for number, size := range sizes {
		switch {
		case size == 0:
			continue
		case size > chunkWords:
			r.err = errors.New("a chunk is too long")
			return
		}
		chunk := f.chunks[uint32(number)]
		if chunk == nil {
			chunk = &blockChunk{}
			f.chunks[uint32(number)] = chunk
		}
		chunk.read(r, int(size))
	}
}

func (c *blockChunk) read(r *summaryReader, size int) {
	if size == chunkWords && c.bits == nil {
		c.toBits()
	}
	for i := range size {
		word := r.uint16()
		switch {
		case r.err != nil:
			return
		case size == chunkWords:
			c.bits[i] |= word
		default:
			c.add(word)
		}
	}
}

// summaryReader reads numbers and sums them up, and keeps the first error.
type summaryReader struct {
	from   *bufio.Reader
	crc    uint32
	err    error
	buffer [summaryEntry]byte
}

func (r *summaryReader) next(n int) []byte {
	if r.err == nil {
		_, r.err = io.ReadFull(r.from, r.buffer[:n])
		r.crc = crc32.Update(r.crc, castagnoli, r.buffer[:n])
	}
	if r.err != nil {
		clear(r.buffer[:n])
	}
	return r.buffer[:n]
}

func (r *summaryReader) uint16() uint16 { return binary.LittleEndian.Uint16(r.next(2)) }
func (r *summaryReader) uint32() uint32 { return binary.LittleEndian.Uint32(r.next(4)) }

// end checks the checksum, after which there must be nothing.
func (r *summaryReader) end() error {
	sum := r.crc
	if r.uint32() != sum || r.err != nil {
		return r.failed("its checksum is wrong")
	}
	if _, err := r.from.ReadByte(); err != io.EOF {
		return r.failed("there is data after its end")
	}
	return nil
}

func (r *summaryReader) failed(why string) error {
	if r.err != nil {
		return fmt.Errorf("%w: %s: %w", ErrWALSummary, why, r.err)
	}
	return fmt.Errorf("%w: %s", ErrWALSummary, why)
}
