package codec

import (
	"fmt"

	"github.com/minio/minlz"
)

// Coding is how a frame is stored. The numbers are written in manifests.
type Coding uint8

// The codings. From MinLZ on half of the number says how often MinLZ was used, and an odd one that zstd came last.
const (
	Zstd           Coding = iota // one zstd frame
	Raw                          // as it is, because it doesn't compress
	MinLZ                        // one MinLZ block
	MinLZZstd                    // one zstd frame, of one MinLZ block
	MinLZTwice                   // one MinLZ block, of one MinLZ block
	MinLZTwiceZstd               // and so on
	MinLZThrice
	MinLZThriceZstd
)

// mostPasses of MinLZ: a fourth one saves next to nothing.
const mostPasses = 3

// Known says whether this code can read the coding.
func (c Coding) Known() bool { return c <= MinLZThriceZstd }

// Passes is how often MinLZ was used.
func (c Coding) Passes() int {
	if c < MinLZ {
		return 0
	}
	return int(c / 2)
}

// Zstd says whether zstd came last.
func (c Coding) Zstd() bool { return c == Zstd || c > MinLZ && c%2 == 1 }

// coded is the coding of what MinLZ compressed so often, and then zstd.
func coded(passes int, zstd bool) Coding {
	switch {
	case passes > 0 && zstd:
		return Coding(2*passes + 1)
	case passes > 0:
		return Coding(2 * passes)
	case zstd:
		return Zstd
	}
	return Raw
}

// worthwhile is the part of the content that compression has to save: less isn't worth the time of both directions.
const worthwhile = 16

// frameWindow is how far back zstd looks for matches: a larger one takes memory and finds nothing more in pages.
const frameWindow = 256 << 10

// DecodeFrame decompresses into dst, which has the exact size of the content. One that is stored as it is is copied.
func (d *Decoders) DecodeFrame(coding Coding, stored, dst []byte) error {
	switch {
	case coding == Raw && len(stored) == len(dst):
		copy(dst, stored)
		return nil
	case coding == Raw || !coding.Known():
		return fmt.Errorf("%w: coding %d, %d bytes stored for %d", ErrDamaged, coding, len(stored), len(dst))
	case coding == MinLZ:
		return decodeBlock(stored, dst)
	}
	decoder := d.take()
	defer d.idle.Put(decoder)
	if coding == Zstd {
		return decoder.decode(stored, dst)
	}
	return decoder.unwind(coding, stored, dst)
}

// unwind takes back what was done several times.
func (d *decoder) unwind(coding Coding, stored, dst []byte) (err error) {
	room := minlz.MaxEncodedLen(len(dst))
	if room < 0 {
		return fmt.Errorf("%w: %d bytes are too many for coding %d", ErrDamaged, len(dst), coding)
	}
	for i := range d.blocks {
		if cap(d.blocks[i]) < room {
			d.blocks[i] = make([]byte, room)
		}
	}
	block, next := stored, 0
	if coding.Zstd() {
		if block, err = d.DecodeAll(stored, d.blocks[0][:0:room]); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		next = 1
	}
	for range coding.Passes() - 1 {
		size, err := minlz.DecodedLen(block)
		if err == nil && size > room {
			err = minlz.ErrTooLarge
		}
		if err == nil {
			block, err = minlz.Decode(d.blocks[next][:size:size], block)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		next = 1 - next
	}
	return decodeBlock(block, dst)
}

// decodeBlock looks at the size first, because minlz would make room for whatever a damaged block claims.
func decodeBlock(stored, dst []byte) error {
	size, err := minlz.DecodedLen(stored)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if size != len(dst) {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, size, len(dst))
	}
	if _, err := minlz.Decode(dst[:len(dst):len(dst)], stored); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}
