package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"testing"

	"howdah.dev/howdah/test/testkit/heaptest"
)

// summaryEntryOf is one entry of a summary, and the 16-bit words of its chunks.
type summaryEntryOf struct {
	fork   RelationFork
	limit  uint32
	chunks [][]uint16
}

// summaryBytes makes a summary as PostgreSQL writes it.
func summaryBytes(entries ...summaryEntryOf) []byte {
	b := binary.LittleEndian.AppendUint32(nil, walSummaryMagic)
	for _, e := range entries {
		for _, n := range []uint32{e.fork.Tablespace, e.fork.Database, e.fork.Relation, uint32(e.fork.Fork), e.limit, uint32(len(e.chunks))} {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		for _, chunk := range e.chunks {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(chunk)))
		}
		for _, chunk := range e.chunks {
			for _, word := range chunk {
				b = binary.LittleEndian.AppendUint16(b, word)
			}
		}
	}
	b = append(b, make([]byte, summaryEntry)...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var accounts = RelationFork{Tablespace: 1663, Database: 5, Relation: 16384}

// bitmapOf is a chunk as a map of bits.
func bitmapOf(offsets ...uint16) []uint16 {
	words := make([]uint16, chunkWords)
	for _, offset := range offsets {
		words[offset/16] |= 1 << (offset % 16)
	}
	return words
}

func changed(f *ForkChanges, first, end uint32) []uint32 {
	blocks := map[uint32]bool{}
	if f != nil {
		f.Each(first, end, func(block uint32) { blocks[block] = true })
	}
	return slices.Sorted(maps.Keys(blocks))
}

func TestWALSummariesTellTheBlocksThatWereChanged(t *testing.T) {
	list := make([]uint16, 1000)
	var many []uint32
	for i := range list {
		list[i] = uint16(3 * i)
		many = append(many, uint32(3*i))
	}
	entry := func(limit uint32, chunks ...[]uint16) summaryEntryOf { return summaryEntryOf{accounts, limit, chunks} }
	for name, test := range map[string]struct {
		summaries  [][]byte
		first, end uint32
		want       []uint32
	}{
		"nothing":                    {[][]byte{summaryBytes()}, 0, 10, nil},
		"a list":                     {[][]byte{summaryBytes(entry(NoLimit, []uint16{7, 1, 3}))}, 0, 10, []uint32{1, 3, 7}},
		"the second chunk":           {[][]byte{summaryBytes(entry(NoLimit, nil, []uint16{2}))}, 0, 1 << 20, []uint32{65538}},
		"a map of bits":              {[][]byte{summaryBytes(entry(NoLimit, bitmapOf(0, 17, 65535)))}, 0, 1 << 20, []uint32{0, 17, 65535}},
		"a long list":                {[][]byte{summaryBytes(entry(NoLimit, list))}, 0, 1 << 20, many},
		"a segment of a relation":    {[][]byte{summaryBytes(entry(NoLimit, []uint16{1, 5, 9}))}, 4, 9, []uint32{5}},
		"cut off at 8":               {[][]byte{summaryBytes(entry(8, []uint16{1}))}, 0, 11, []uint32{1, 8, 9, 10}},
		"made anew":                  {[][]byte{summaryBytes(entry(0))}, 0, 3, []uint32{0, 1, 2}},
		"two summaries":              {[][]byte{summaryBytes(entry(9, []uint16{1})), summaryBytes(entry(NoLimit, []uint16{2}))}, 0, 11, []uint32{1, 2, 9, 10}},
		"the lower limit":            {[][]byte{summaryBytes(entry(3)), summaryBytes(entry(5))}, 0, 6, []uint32{3, 4, 5}},
		"bits after a list":          {[][]byte{summaryBytes(entry(NoLimit, []uint16{1})), summaryBytes(entry(NoLimit, bitmapOf(2)))}, 0, 9, []uint32{1, 2}},
		"another fork is not it":     {[][]byte{summaryBytes(summaryEntryOf{RelationFork{1663, 5, 16384, VisibilityFork}, 0, nil})}, 0, 9, nil},
		"the last block that can be": {[][]byte{summaryBytes(entry(NoLimit, append(make([][]uint16, 65535), []uint16{65534})...))}, 1 << 31, 1<<32 - 1, []uint32{1<<32 - 2}},
	} {
		t.Run(name, func(t *testing.T) {
			changes := BlockChanges{}
			for _, summary := range test.summaries {
				if err := changes.Add(bytes.NewReader(summary)); err != nil {
					t.Fatal(err)
				}
			}
			if got := changed(changes[accounts], test.first, test.end); !slices.Equal(got, test.want) {
				t.Errorf("changed are %v, want %v", got, test.want)
			}
		})
	}
}

func TestADamagedWALSummaryIsRefused(t *testing.T) {
	good := summaryBytes(summaryEntryOf{accounts, 9, [][]uint16{{1, 2, 3}, bitmapOf(5)}})
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 0x10
		if err := (BlockChanges{}).Add(bytes.NewReader(bad)); !errors.Is(err, ErrWALSummary) {
			t.Fatalf("a flipped bit at byte %d: %v", at, err)
		}
	}
	for end := range good {
		if err := (BlockChanges{}).Add(bytes.NewReader(good[:end])); !errors.Is(err, ErrWALSummary) {
			t.Fatalf("cut off at byte %d: %v", end, err)
		}
	}
	for name, bad := range map[string][]byte{
		"with one byte more":                 append(good, 0),
		"with more chunks than there can be": summaryBytes(summaryEntryOf{accounts, NoLimit, make([][]uint16, chunkBlocks+1)}),
		"with a chunk that is too long":      summaryBytes(summaryEntryOf{accounts, NoLimit, [][]uint16{make([]uint16, chunkWords+1)}}),
	} {
		if err := (BlockChanges{}).Add(bytes.NewReader(bad)); !errors.Is(err, ErrWALSummary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesOfWALSummaries(t *testing.T) {
	const name = "0000000200000001000000280000000100A0B0C8.summary"
	want := WALSummary{Timeline: 2, Start: 0x100000028, End: 0x100A0B0C8}
	if got, err := ParseWALSummary(name); err != nil || got != want || got.Name() != name {
		t.Errorf("%+v, %v, %s", got, err, got.Name())
	}
	for _, bad := range []string{"", "temp.summary", name[1:], "0000000200000001000000280000000100a0b0c8.summary", name + ".tmp", "+" + name[1:]} {
		if got, err := ParseWALSummary(bad); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

func FuzzWALSummary(f *testing.F) {
	f.Add(summaryBytes())
	f.Add(summaryBytes(summaryEntryOf{accounts, 9, [][]uint16{{1, 2, 3}, bitmapOf(5)}}))
	f.Add(summaryBytes(summaryEntryOf{accounts, 0, nil}, summaryEntryOf{RelationFork{1664, 0, 1262, 0}, NoLimit, [][]uint16{{0}}}))
	f.Fuzz(func(t *testing.T, content []byte) {
		changes := BlockChanges{}
		var err error
		heaptest.AtMost(t, 4<<20, 512, len(content), func() { err = changes.Add(bytes.NewReader(content)) })
		if err != nil && !errors.Is(err, ErrWALSummary) {
			t.Errorf("%v is no ErrWALSummary", err)
		}
		for _, fork := range changes {
			fork.Each(0, 100, func(block uint32) {
				if block >= 100 {
					t.Errorf("block %d", block)
				}
			})
		}
	})
}
