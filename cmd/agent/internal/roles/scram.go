package roles

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	saltSize   = 16   // bytes
	iterations = 4096 // PostgreSQL's default
)

// iterationsOf is the number that scram_iterations says.
func iterationsOf(setting *string) int {
	if setting == nil {
		return iterations
	}
	if n, err := strconv.Atoi(*setting); err == nil && n > 0 {
		return n
	}
	return iterations
}

// makeVerifier is what PostgreSQL keeps of a password (RFC 5803):
// SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>.
func makeVerifier(password string, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, postgres.PreparePassword(password), salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive the verifier of a password: %w", err)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode(salt), encode(stored[:]), encode(mac(salted, "Server Key"))), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// verifies says whether a stored verifier is that of the password.
func verifies(stored, password string) bool {
	parameters, isSCRAM := strings.CutPrefix(stored, "SCRAM-SHA-256$")
	count, rest, hasSalt := strings.Cut(parameters, ":")
	salt64, _, hasKeys := strings.Cut(rest, "$")
	n, err := strconv.Atoi(count)
	salt, errSalt := base64.StdEncoding.DecodeString(salt64)
	if !isSCRAM || !hasSalt || !hasKeys || err != nil || errSalt != nil || n < 1 || n > 1<<24 {
		return false
	}
	verifier, err := makeVerifier(password, salt, n)
	return err == nil && hmac.Equal([]byte(verifier), []byte(stored))
}
