package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// opener seals and opens the chunks of one object.
type opener struct {
	aead cipher.AEAD
	size int64 // of the content
}

// newOpener derives the object's key. The identity of the repository is as long as all are, or missing where the header says so; so no
// two objects have the same.
func newOpener(with dataKey, h header, key string) (*opener, error) {
	secret, err := hkdf.Key(sha256.New, with.secret, h.salt[:], string(h.marshal())+with.repository+key, keySize)
	if err != nil {
		return nil, err
	}
	if h.cipher == cipherHMAC {
		return &opener{aead: signer{secret}, size: h.size}, nil
	}
	aead, err := newGCM(secret)
	return &opener{aead: aead, size: h.size}, err
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func nonce(chunk int64) []byte {
	var n [12]byte
	binary.LittleEndian.PutUint64(n[:], uint64(chunk))
	return n[:]
}

// length of the content of a chunk.
func (o *opener) length(chunk int64) int64 { return min(chunkSize, o.size-chunk*chunkSize) }

// at is where a chunk is in the object; that of the one beyond the last is the object's end.
func (o *opener) at(chunk int64) int64 {
	return min(headerSize+chunk*stride, sealedSize(o.size))
}

// seal appends the chunks of the content to dst, which has the header, and returns the CRC-32C of all of it. A chunk is summed while it
// is in the processor's cache.
func (o *opener) seal(dst, content []byte) (object []byte, sum uint32) {
	sum = crc32.Checksum(dst, castagnoli)
	for chunk := range chunks(o.size) {
		from, begin := chunk*chunkSize, len(dst)
		dst = o.aead.Seal(dst, nonce(chunk), content[from:from+o.length(chunk)], nil)
		sum = crc32.Update(sum, castagnoli, dst[begin:])
	}
	return dst, sum
}

// open opens one chunk into dst, which has room for it.
func (o *opener) open(dst, stored []byte, chunk int64) error {
	if _, err := o.aead.Open(dst[:0], nonce(chunk), stored, nil); err != nil {
		from := chunk * chunkSize
		return fmt.Errorf("its bytes %d to %d are not what was stored under this name", from, from+o.length(chunk))
	}
	return nil
}

// openAll opens all chunks of a whole object in its place, and returns the content.
func (o *opener) openAll(object []byte) ([]byte, error) {
	if int64(len(object)) != sealedSize(o.size) {
		return nil, fmt.Errorf("it has %d bytes instead of %d", len(object), sealedSize(o.size))
	}
	for chunk := range chunks(o.size) {
		stored := object[o.at(chunk):o.at(chunk+1)]
		if err := o.open(stored, stored, chunk); err != nil {
			return nil, err
		}
		copy(object[chunk*chunkSize:], stored[:o.length(chunk)])
	}
	return object[:o.size], nil
}

// openRange opens into p the content from off on, of which there is as much as p takes. stored begins with the chunk that
// off is in; it is used up.
func (o *opener) openRange(p, stored []byte, off int64) error {
	first := off / chunkSize
	for chunk := first; len(p) > 0; chunk++ {
		sealed := stored[o.at(chunk)-o.at(first) : o.at(chunk+1)-o.at(first)]
		length, skip := o.length(chunk), off-chunk*chunkSize
		if skip == 0 && int64(len(p)) >= length {
			if err := o.open(p, sealed, chunk); err != nil {
				return err
			}
			p, off = p[length:], off+length
			continue
		}
		if err := o.open(sealed, sealed, chunk); err != nil {
			return err
		}
		n := copy(p, sealed[skip:length])
		p, off = p[n:], off+int64(n)
	}
	return nil
}
