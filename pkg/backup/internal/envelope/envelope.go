// Package envelope is the header that every object of a backup starts with: a zstd skippable frame,
// so that the zstd tool reads what follows it as if it weren't there.
//
//	 0  4  0x184D2A5D, the magic of a skippable frame (all numbers are little-endian)
//	 4  4  n: length of what follows in this frame, 16 + length of the meta data
//	 8  6  "HOWDAH"
//	14  1  kind of object
//	15  1  version of the format
//	16  1  encryption; 0, because this version knows none
//	17  3  zero
//	20  4  CRC-32C of bytes 0 to 19 and of the meta data
//	24  …  meta data: JSON
//
// All versions of the format keep the first 24 bytes, so that each reader can tell a later version from damage.
package envelope

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"howdah.dev/howdah/pkg/backup/format"
)

// Kind is what an object is.
type Kind byte

// The kinds of objects.
const (
	Manifest Kind = 'M'
	Pack     Kind = 'P'
	WAL      Kind = 'W'
)

const (
	skippable = 0x184D2A5D
	name      = "HOWDAH"
	fixed     = 24
	maxMeta   = 1 << 20
)

var (
	// ErrBroken is a header that isn't one, or whose checksum is wrong.
	ErrBroken = errors.New("broken header")
	// ErrUnknown is a version or an encryption that this code doesn't know.
	ErrUnknown = format.ErrUnknown
)

// ShortError says that the header is longer than the bytes that were given.
type ShortError struct{ Need int }

// Error says how long the header is.
func (e *ShortError) Error() string { return fmt.Sprintf("header of %d bytes is cut short", e.Need) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal returns a header with the meta data.
func Seal(kind Kind, meta any) ([]byte, error) {
	encoded, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	if len(encoded) > maxMeta {
		return nil, fmt.Errorf("meta data of %d bytes are too long", len(encoded))
	}
	b := make([]byte, fixed, fixed+len(encoded))
	binary.LittleEndian.PutUint32(b, skippable)
	binary.LittleEndian.PutUint32(b[4:], uint32(fixed-8+len(encoded)))
	copy(b[8:], name)
	b[14], b[15] = byte(kind), format.Current
	b = append(b, encoded...)
	binary.LittleEndian.PutUint32(b[20:], sum(b))
	return b, nil
}

func sum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:20], castagnoli), castagnoli, b[fixed:])
}

// Open reads the header at the start of b into meta, and returns its length. A *ShortError says how
// many bytes it would need.
func Open(b []byte, kind Kind, meta any) (int, error) {
	if len(b) < fixed {
		return 0, &ShortError{Need: fixed}
	}
	size := int(binary.LittleEndian.Uint32(b[4:])) + 8
	if binary.LittleEndian.Uint32(b) != skippable || string(b[8:14]) != name || size < fixed || size > fixed+maxMeta {
		return 0, fmt.Errorf("%w: not an object of Howdah", ErrBroken)
	}
	if len(b) < size {
		return 0, &ShortError{Need: size}
	}
	if binary.LittleEndian.Uint32(b[20:]) != sum(b[:size]) {
		return 0, fmt.Errorf("%w: its checksum is wrong", ErrBroken)
	}
	if err := format.Check(int(b[15])); err != nil {
		return 0, err
	}
	if Kind(b[14]) != kind || b[17]|b[18]|b[19] != 0 {
		return 0, fmt.Errorf("%w: object of kind %q where %q is expected", ErrBroken, b[14], byte(kind))
	}
	if b[16] != 0 {
		return 0, fmt.Errorf("%w: encryption %d", ErrUnknown, b[16])
	}
	if err := json.Unmarshal(b[fixed:size], meta); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return size, nil
}
