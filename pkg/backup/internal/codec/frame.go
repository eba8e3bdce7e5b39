package codec

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Coding is how a frame is stored. The numbers stand in manifests.
type Coding uint8

// The codings.
const (
	Zstd Coding = iota // one zstd frame
	Raw                // as it is, because it doesn't compress
	S2                 // one S2 block
)

// Known says whether this code can read the coding.
func (c Coding) Known() bool { return c <= S2 }

// worthwhile is the part of the content that compression has to save: less isn't worth decompressing.
const worthwhile = 32

// frameWindow is how far back matches are looked for: a larger one takes memory and finds nothing more in pages.
const frameWindow = 256 << 10

// FrameEncoder makes frames, one at a time.
type FrameEncoder struct {
	zstd *zstd.Encoder // nil: S2
}

// NewFrameEncoder returns an encoder for one goroutine, for contents of up to maxInput bytes.
func NewFrameEncoder(level Level, maxInput int) (*FrameEncoder, error) {
	if level == Quick {
		return &FrameEncoder{}, nil
	}
	encoder, err := NewEncoder(level, min(maxInput, frameWindow))
	return &FrameEncoder{zstd: encoder}, err
}

// Encode compresses content into the buffer, or into a larger one. What doesn't compress is returned as it is.
func (e *FrameEncoder) Encode(content, buffer []byte) (stored []byte, coding Coding) {
	if e.zstd != nil {
		stored, coding = e.zstd.EncodeAll(content, buffer[:0]), Zstd
	} else {
		stored, coding = s2.Encode(buffer[:cap(buffer)], content), S2
	}
	if len(stored) >= len(content)-len(content)/worthwhile {
		return content, Raw
	}
	return stored, coding
}

// DecodeFrame decompresses into dst, which has the exact size of the content. One that is stored as it is is copied.
func DecodeFrame(coding Coding, stored, dst []byte) error {
	switch coding {
	case Zstd:
		return Decode(stored, dst)
	case S2:
		return decodeS2(stored, dst)
	case Raw:
		if copy(dst, stored) == len(dst) && len(stored) == len(dst) {
			return nil
		}
	}
	return fmt.Errorf("%w: coding %d, %d bytes stored for %d", ErrDamaged, coding, len(stored), len(dst))
}

// decodeS2 looks at the size first, because s2 would make room for whatever a damaged block claims.
func decodeS2(stored, dst []byte) error {
	size, err := s2.DecodedLen(stored)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if size != len(dst) {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, size, len(dst))
	}
	if _, err := s2.Decode(dst[:len(dst):len(dst)], stored); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}
