package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/minio/minlz"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/heaptest"
)

const fuzzed = "000000010000000000000002"

func sealed(t testing.TB, effort Effort, content []byte) []byte {
	t.Helper()
	o := newObject()
	o.begin(effort, int64(len(content)))
	if _, err := o.Write(content); err != nil {
		t.Fatal(err)
	}
	body, _, err := o.seal(fuzzed, int64(len(content)), Info{Writer: "w", RestorePoints: []RestorePoint{{Name: "p", LSN: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(body)
}

// boastful is an object of a few bytes whose frame wants a window of 512 MiB, and whose header promises as much.
func boastful(t testing.TB) []byte {
	t.Helper()
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 3, 0, 1, 'x'} // a frame of no known size, with one block that repeats a byte
	header, err := envelope.Seal(envelope.WAL, stored{
		Header: Header{Name: fuzzed, RawSize: 512 << 20}, Stored: int64(len(frame)), StoredCRC32C: codec.CRC(frame),
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(header, frame...)
}

// mostMemory is what reading an object takes beside a multiple of its size: the decoders and their windows.
const mostMemory = 64 << 20

// What is read is what its checksums say, or an error; memory that a header asks for is bounded.
func FuzzReadObject(f *testing.F) {
	f.Add(sealed(f, Hasty, bytes.Repeat([]byte("wal "), 1000)))
	whole := sealed(f, Thorough, bytes.Repeat([]byte("wal "), 1000))
	f.Add(whole)
	f.Add(whole[:40])
	f.Add(boastful(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, object []byte) {
		var (
			header Header
			frame  []byte
			err    error
		)
		heaptest.AtMost(t, 1<<20, 64, len(object), func() { header, frame, err = open(object, fuzzed) })
		if err != nil {
			if short := (&envelope.ShortError{}); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) && !errors.As(err, &short) {
				t.Errorf("an error without a kind: %v", err)
			}
			return
		}
		content := counter(0)
		heaptest.AtMost(t, mostMemory, 64, len(object), func() { err = New(mem.New()).decompress(frame, header, &content) })
		if err == nil && int64(content) != header.RawSize {
			t.Errorf("%d bytes of %d", content, header.RawSize)
		}
	})
}

// Meta data with a right checksum and anything in it.
func FuzzReadHeader(f *testing.F) {
	whole := sealed(f, Thorough, []byte("wal"))
	f.Add(whole[24:binary.LittleEndian.Uint32(whole[4:])+8], []byte("frame"))
	hasty := sealed(f, Hasty, bytes.Repeat([]byte("wal "), 1000))
	f.Add(hasty[24:binary.LittleEndian.Uint32(hasty[4:])+8], hasty[binary.LittleEndian.Uint32(hasty[4:])+8:])
	f.Add([]byte(`{"name":"000000010000000000000002","rawSize":9223372036854775807,"stored":-1}`), []byte{})
	f.Fuzz(func(t *testing.T, meta, frame []byte) {
		header, err := envelope.Seal(envelope.WAL, raw(meta))
		if err != nil {
			return
		}
		object := slices.Concat(header, frame)
		heaptest.AtMost(t, mostMemory, 64, len(object), func() {
			if read, frame, err := open(object, fuzzed); err == nil {
				_ = New(mem.New()).decompress(frame, read, io.Discard)
			}
		})
	})
}

// TestBlocksOfMinLZThatAreLargerThanAnyThatIsWrittenAreRefused before there is room for them: each use of MinLZ would take twice 8 MiB.
func TestBlocksOfMinLZThatAreLargerThanAnyThatIsWrittenAreRefused(t *testing.T) {
	const larger, room = 2 * nextBlock, 6 << 20 // room for what is right, and what it takes to find the other
	for passes := 1; passes <= mostPasses; passes++ {
		for large := range passes + 1 { // which of them has large blocks; the last: none has
			content := bytes.Repeat([]byte("the same again and again "), 1<<19)
			header := Header{RawSize: int64(len(content)), CRC32C: codec.CRC(content), MinLZ: passes}
			frame := content
			for pass := range passes {
				block, once := nextBlock, bytes.Buffer{}
				if pass == large {
					block = larger
				}
				stream := newStream(block, minlz.LevelFastest)
				stream.Reset(&once)
				if _, err := stream.Write(frame); err != nil {
					t.Fatal(err)
				}
				if err := stream.Close(); err != nil {
					t.Fatal(err)
				}
				frame = once.Bytes()
			}
			var err error
			took := heaptest.Allocated(func() { err = New(mem.New()).decompress(frame, header, io.Discard) })
			if refused := errors.Is(err, ErrCorrupt); refused != (large < passes) || !refused && err != nil {
				t.Errorf("pass %d of %d has large blocks: %v", large+1, passes, err)
			}
			if took > room {
				t.Errorf("pass %d of %d has large blocks: it took %d KiB", large+1, passes, took>>10)
			}
		}
	}
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// raw is JSON as it is.
type raw []byte

func (r raw) MarshalJSON() ([]byte, error) { return r, nil }
