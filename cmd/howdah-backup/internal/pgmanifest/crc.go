package pgmanifest

import (
	"hash/crc32"

	"howdah.dev/howdah/pkg/backup"
)

// table is that of CRC-32C, which PostgreSQL and the backup format share.
var table = crc32.MakeTable(crc32.Castagnoli)

// multiply multiplies two polynomials modulo the one of the checksum; the highest power is the lowest bit. The first is not
// zero.
func multiply(a, b uint32) uint32 {
	product := uint32(0)
	for bit := uint32(1) << 31; ; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
			if a&(bit-1) == 0 {
				return product
			}
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
}

// powers holds x to the powers of two.
var powers = func() (p [64]uint32) {
	p[0] = 1 << 30
	for i := 1; i < len(p); i++ {
		p[i] = multiply(p[i-1], p[i-1])
	}
	return p
}()

// combine is the checksum of two runs of bytes, one after the other: of the first, of the second, and the length of that.
func combine(first, second uint32, length int64) uint32 {
	shift := uint32(1) << 31
	for i := 3; length > 0; i, length = i+1, length>>1 { // 8 bits a byte
		if length&1 != 0 {
			shift = multiply(powers[i], shift)
		}
	}
	return multiply(shift, first) ^ second
}

// zeros is the checksum of this many zero bytes.
func zeros(length int64) uint32 {
	sum, one, width := uint32(0), crc32.Checksum([]byte{0}, table), int64(1)
	for ; length > 0; length >>= 1 {
		if length&1 != 0 {
			sum = combine(sum, one, width)
		}
		one, width = combine(one, one, width), 2*width
	}
	return sum
}

// fromParts is the checksum of a file's content by what the backup says of its frames. False: some frame is shared with other
// files, and the file has to be read.
func fromParts(f *backup.File) (uint32, bool) {
	sum, at := uint32(0), int64(0)
	for _, part := range f.Parts {
		if part.Skip != 0 || part.Length != part.Frame.Content {
			return 0, false
		}
		if gap := part.FileOffset - at; gap > 0 {
			sum = combine(sum, zeros(gap), gap)
		}
		sum = combine(sum, part.Frame.ContentCRC, int64(part.Length))
		at = part.FileOffset + int64(part.Length)
	}
	if gap := f.Size - at; gap > 0 {
		sum = combine(sum, zeros(gap), gap)
	}
	return sum, true
}
