package sealed

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
)

// signer is a cipher.AEAD that leaves the content as it is, and adds the first 16 bytes of HMAC-SHA-256 of nonce and content.
type signer struct{ key []byte }

var errSignature = errors.New("the signature is wrong")

// NonceSize of the nonces of chunks.
func (signer) NonceSize() int { return len(nonce(0)) }

// Overhead is the length of a signature.
func (signer) Overhead() int { return tagSize }

func (s signer) sign(nonce, content []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(nonce)
	mac.Write(content)
	return mac.Sum(nil)[:tagSize]
}

// Seal appends the content and its signature. There is no additional data.
func (s signer) Seal(dst, nonce, content, _ []byte) []byte {
	signature := s.sign(nonce, content)
	return append(append(dst, content...), signature...)
}

// Open appends the content if its signature is right.
func (s signer) Open(dst, nonce, stored, _ []byte) ([]byte, error) {
	size := len(stored) - tagSize
	if size < 0 || !hmac.Equal(s.sign(nonce, stored[:size]), stored[size:]) {
		return nil, errSignature
	}
	return append(dst, stored[:size]...), nil
}
