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

// AddCRC is the CRC-32C of what has that of crc, with b behind it.
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

var decoders = sync.Pool{New: func() any {
	one, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only for options that exclude each other
	}
	return &decoder{Decoder: one}
}}

// Decode decompresses into dst, which has the exact size of the content.
func Decode(stored, dst []byte) error {
	decoder := decoders.Get().(*decoder)
	defer decoders.Put(decoder)
	content, err := decoder.DecodeAll(stored, dst[:0:len(dst)])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if len(content) != len(dst) {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, len(content), len(dst))
	}
	return nil
}
