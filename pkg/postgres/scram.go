package postgres

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	scramIterations = 4096
	scramSaltBytes  = 16
	// maxScramIterations bounds what a stored verifier can make us compute.
	maxScramIterations = 1 << 20
)

// ErrPassword is wrapped by the refusal of a password. Its text never holds the password.
var ErrPassword = errors.New("password refused")

// ScramVerifier is what PostgreSQL stores for a password (scram-sha-256, 4096 iterations), made here
// so that the password itself never reaches the server, its log or pg_stat_statements. The salt is
// read from random.
func ScramVerifier(password string, random io.Reader) (string, error) {
	if err := checkPassword(password); err != nil {
		return "", err
	}
	salt := make([]byte, scramSaltBytes)
	if _, err := io.ReadFull(random, salt); err != nil {
		return "", fmt.Errorf("salt of a password: %w", err)
	}
	return scramVerifier(password, salt, scramIterations)
}

// ScramMatches says whether a stored verifier is that of a password.
func ScramMatches(verifier, password string) bool {
	rest, found := strings.CutPrefix(verifier, "SCRAM-SHA-256$")
	parameters, _, foundKeys := strings.Cut(rest, "$")
	count, encodedSalt, foundSalt := strings.Cut(parameters, ":")
	iterations, err := strconv.Atoi(count)
	if !found || !foundKeys || !foundSalt || err != nil || iterations < 1 || iterations > maxScramIterations {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(encodedSalt)
	if err != nil || checkPassword(password) != nil {
		return false
	}
	again, err := scramVerifier(password, salt, iterations)
	return err == nil && hmac.Equal([]byte(again), []byte(verifier))
}

func scramVerifier(password string, salt []byte, iterations int) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("scram-sha-256: %w", err)
	}
	stored := sha256.Sum256(hmacSHA256(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode(salt), encode(stored[:]),
		encode(hmacSHA256(salted, "Server Key"))), nil
}

func hmacSHA256(key []byte, message string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// checkPassword refuses what some client would normalise (SASLprep, RFC 4013) into another password
// than the one that is meant. Everything else stays as it is by SASLprep, or is forbidden by it, and
// then PostgreSQL and its clients use the bytes as they are.
func checkPassword(password string) error {
	switch {
	case password == "":
		return fmt.Errorf("%w: it is empty", ErrPassword)
	case strings.Contains(password, "\x00"):
		return fmt.Errorf("%w: it holds a zero byte", ErrPassword)
	case utf8.ValidString(password) && (!norm.NFKC.IsNormalString(password) || strings.ContainsFunc(password, isPreparedAway)):
		return fmt.Errorf("%w: it holds characters that clients write in more than one way: use plain letters, digits and signs", ErrPassword)
	}
	return nil
}

// isPreparedAway is true for what SASLprep maps to a space or to nothing (RFC 3454, B.1 and C.1.2).
func isPreparedAway(r rune) bool {
	switch {
	case r == 0xA0, r == 0xAD, r == 0x34F, r == 0x1680, r == 0x1806, r >= 0x180B && r <= 0x180D,
		r >= 0x2000 && r <= 0x200D, r == 0x202F, r == 0x205F, r == 0x2060, r == 0x3000,
		r >= 0xFE00 && r <= 0xFE0F, r == 0xFEFF:
		return true
	}
	return false
}
