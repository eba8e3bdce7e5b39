// Package signature signs what a release consists of, in the formats of cosign, and checks such signatures. One key and one
// content give one signature, so that a release that is built again is the same to the last byte.
package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Errors that say what is wrong with a signature or a key.
var (
	ErrInvalid   = errors.New("the signature does not match the content and the key")
	ErrEncrypted = errors.New("the key is encrypted")
)

// Key signs. It is an ECDSA key, as `openssl ecparam -name prime256v1 -genkey -noout` writes it.
type Key struct {
	private *ecdsa.PrivateKey
}

// PublicKey checks signatures.
type PublicKey struct {
	public *ecdsa.PublicKey
}

// LoadKey reads a private key from a PEM file.
func LoadKey(path string) (*Key, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	for block != nil && block.Type == "EC PARAMETERS" { // openssl writes them in front, unless it is told not to
		block, content = pem.Decode(content)
	}
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file with a private key", path)
	}
	private, err := parsePrivate(block)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Key{private}, nil
}

func parsePrivate(block *pem.Block) (*ecdsa.PrivateKey, error) {
	switch block.Type {
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		if private, is := key.(*ecdsa.PrivateKey); is {
			return private, nil
		}
		return nil, fmt.Errorf("a key of the type %T can't be used: create one with openssl ecparam -name prime256v1 -genkey -noout", key)
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return nil, fmt.Errorf("%w: name a file with the plain key, which the forge keeps as a secret", ErrEncrypted)
	}
	return nil, fmt.Errorf("a PEM block of the type %q is not a private key", block.Type)
}

// Sign signs the SHA-256 of content. Without a source of randomness the signature follows from key and content (RFC 6979).
func (k *Key) Sign(content []byte) ([]byte, error) {
	digest := sha256.Sum256(content)
	return k.private.Sign(nil, digest[:], crypto.SHA256)
}

// Public is the key that checks what this one signs.
func (k *Key) Public() *PublicKey { return &PublicKey{&k.private.PublicKey} }

// PEM is the public key as cosign and openssl read it.
func (p *PublicKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(p.public)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// LoadPublicKey reads a public key from a PEM file.
func LoadPublicKey(path string) (*PublicKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("%s is not a PEM file with a public key", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	public, is := key.(*ecdsa.PublicKey)
	if !is {
		return nil, fmt.Errorf("%s has a key of the type %T, not an ECDSA key", path, key)
	}
	return &PublicKey{public}, nil
}

// Verify checks a signature of content.
func (p *PublicKey) Verify(content, signature []byte) error {
	digest := sha256.Sum256(content)
	if !ecdsa.VerifyASN1(p.public, digest[:], signature) {
		return ErrInvalid
	}
	return nil
}
