package codec

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Digester makes digests that tell contents apart where a CRC is too narrow: accidents make two contents of one digest once
// in 2⁶⁴, and nobody can aim at one whose seed they don't know. It takes less time than a CRC.
type Digester struct{ seed uint64 }

// NewDigester returns the digester of a secret. It may be used by several goroutines.
func NewDigester(secret string) Digester {
	sum := sha256.Sum256([]byte(secret))
	return Digester{binary.BigEndian.Uint64(sum[:])}
}

// Digest is the XXH3 of content, of 64 bits, and never 0.
func (d Digester) Digest(content []byte) uint64 { return max(1, xxh3.HashSeed(content, d.seed)) }
