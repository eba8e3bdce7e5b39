package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

const (
	magic = 0x184D2A5D
	name  = "HOWDAH"
	kind  = 'S'
	// versionFirst is that of repositories without an identity, versionIdentity that of all others.
	versionFirst    = 1
	versionIdentity = 2
	cipherAES       = 1
	cipherHMAC      = 2 // signed, and not encrypted
	headerSize      = 80
	keyNameSize     = 16
	saltSize        = 32
	// identitySize is the length of the identity of a repository, in hexadecimal digits.
	identitySize = 32

	chunkSize = 64 << 10
	tagSize   = 16
	stride    = chunkSize + tagSize
)

// header stands before the chunks of every sealed object.
type header struct {
	version byte
	cipher  byte
	dataKey string // its name
	salt    [saltSize]byte
	size    int64 // of the content
}

var (
	errNotSealed = errors.New("it is not sealed")
	errUnknown   = errors.New("it is sealed in a format that this version doesn't know: a later version of Howdah wrote it, or the object is not one of Howdah's")
	errHeader    = errors.New("the checksum of its header is wrong")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newHeader is the header of a new object.
func newHeader(with dataKey, cipher byte, size int) header {
	h := header{version: with.version(), cipher: cipher, dataKey: with.id, size: int64(size)}
	_, _ = rand.Read(h.salt[:]) // it never fails
	return h
}

func (h header) marshal() []byte {
	b := make([]byte, headerSize)
	binary.LittleEndian.PutUint32(b, magic)
	binary.LittleEndian.PutUint32(b[4:], headerSize-8)
	copy(b[8:], name)
	b[14], b[15], b[16] = kind, h.version, h.cipher
	copy(b[24:40], h.dataKey)
	copy(b[40:72], h.salt[:])
	binary.LittleEndian.PutUint64(b[72:], uint64(h.size))
	binary.LittleEndian.PutUint32(b[20:], checksum(b))
	return b
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:20], castagnoli), castagnoli, b[24:headerSize])
}

// parseHeader reads the header at the start of b.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerSize || binary.LittleEndian.Uint32(b) != magic || string(b[8:14]) != name || b[14] != kind {
		return header{}, errNotSealed
	}
	if binary.LittleEndian.Uint32(b[20:]) != checksum(b) {
		return header{}, errHeader
	}
	if b[15] < versionFirst || b[15] > versionIdentity || b[16] < cipherAES || b[16] > cipherHMAC || b[17]|b[18]|b[19] != 0 || binary.LittleEndian.Uint32(b[4:]) != headerSize-8 {
		return header{}, errUnknown
	}
	h := header{version: b[15], cipher: b[16], dataKey: string(b[24:40]), size: int64(binary.LittleEndian.Uint64(b[72:]))}
	copy(h.salt[:], b[40:72])
	if h.size < 0 || h.size > maxContent || !validDataKey(h.dataKey) {
		return header{}, errUnknown
	}
	return h, nil
}

// validDataKey says whether a name is one of a data key: it becomes a part of an object's name.
func validDataKey(id string) bool {
	return len(id) == keyNameSize && strings.Trim(id, "0123456789abcdef") == ""
}

// maxContent is far above what an object store takes as one object, and far below what overflows.
const maxContent = 1 << 50

// chunks is how many a content of this size has.
func chunks(size int64) int64 { return max(1, (size+chunkSize-1)/chunkSize) }

// sealedSize is how large an object with this content is.
func sealedSize(size int64) int64 {
	size = min(size, maxContent)
	return headerSize + size + tagSize*chunks(size)
}

// contentSize is the size of the content of a sealed object. What can't be one has none.
func contentSize(sealed int64) int64 {
	body := sealed - headerSize
	if body < tagSize {
		return 0
	}
	return body - tagSize*((body+stride-1)/stride)
}
