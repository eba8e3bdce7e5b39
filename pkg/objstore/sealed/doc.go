// Package sealed encrypts a store on the client: who has the bucket learns how objects are named, how large they are and
// when they were written, and nothing of what is in them. Who can write to the bucket can delete, and can put back an
// object as it was; no other change goes unseen.
//
// A key from outside, such as an entry of a Secret, only wraps data keys, which lie below keys/ in the store. So keys are
// rotated by wrapping a few small objects again. howdah.json, keys/ and readers/ are plain; every other object is sealed:
//
//	 0  4  0x184D2A5D, the magic of a skippable frame of zstd (all numbers are little-endian)
//	 4  4  72, the length of what follows in this frame
//	 8  6  "HOWDAH"
//	14  1  'S'
//	15  1  version of the format: 1
//	16  1  cipher: 1, AES-256-GCM in chunks of 64 KiB
//	17  3  zero
//	20  4  CRC-32C of bytes 0 to 19 and 24 to 79
//	24 16  name of the data key
//	40 32  salt
//	72  8  size of the content
//
// Behind it come the chunks, each of 64 KiB of content, the last one of what is left, and a tag of 16 bytes. Empty content
// is one empty chunk. The key of an object is HKDF-SHA-256 of the data key with the salt, and with the header and the
// object's name as info; so an object that is moved, cut, or mixed with another does not open. The nonce of a chunk is
// its number. No two objects have the same key, so no nonce is used twice.
package sealed
