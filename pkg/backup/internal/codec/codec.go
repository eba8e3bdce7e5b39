// Package codec compresses and checks runs of bytes, each on its own.
package codec

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// ErrDamaged is content that doesn't decompress to what it should be.
var ErrDamaged = errors.New("damaged content")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC is the CRC-32C of b.
func CRC(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// AddCRC is the CRC-32C of what has that of crc, with b after it.
func AddCRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// Level is the effort of compression.
type Level int

// The levels that are used.
const (
	Quick   Level = 0 // MinLZ alone, for frames only
	Fastest Level = Level(zstd.SpeedFastest)
	Default Level = Level(zstd.SpeedDefault)
)

// NewEncoder returns an encoder for one goroutine, for inputs of up to maxInput bytes.
func NewEncoder(level Level, maxInput int) (*zstd.Encoder, error) {
	window := zstd.MinWindowSize
	for window < maxInput && window < 4<<20 {
		window *= 2
	}
	// Digests and the like compress though nothing in them comes again.
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(level)), zstd.WithEncoderConcurrency(1), zstd.WithAllLitEntropyCompression(true),
		zstd.WithWindowSize(window), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
}

// decoder is for one goroutine at a time.
type decoder struct {
	*zstd.Decoder
	blocks [2][]byte // what comes out in between where something was compressed several times
}

// Decoders keeps decoders for whoever decodes much. The zero value is ready for use, by any number of goroutines. It belongs to one piece of
// work, as a decoder has channels, which a test that runs in a bubble of synctest must not share with others.
type Decoders struct{ idle sync.Pool }

func (d *Decoders) take() *decoder {
	if idle, is := d.idle.Get().(*decoder); is {
		return idle
	}
	one, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only for options that exclude each other
	}
	return &decoder{Decoder: one}
}

// decode decompresses into dst, which has the exact size of the content.
func (d *decoder) decode(stored, dst []byte) error {
	content, err := d.DecodeAll(stored, dst[:0:len(dst)])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if len(content) != len(dst) {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, len(content), len(dst))
	}
	return nil
}
