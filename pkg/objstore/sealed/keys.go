package sealed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const keySize = 32

// CurrentEntry names, among the keys, the one that wraps data keys from now on.
const CurrentEntry = "current"

// What can be wrong with keys, for errors.Is. The text of each is a sentence for a person, with no byte of a key in it.
var (
	// ErrKeyNotFound is a repository whose key is not among those that were given.
	ErrKeyNotFound = errors.New("encryption key not found")
	// ErrWrongKey is a key that has the right name, or that can't be one at all.
	ErrWrongKey = errors.New("wrong encryption key")
	// ErrPlain is a repository that is not encrypted, opened with keys.
	ErrPlain = errors.New("repository is not encrypted")
	// ErrUnsigned is a repository that is not signed, opened as one that is.
	ErrUnsigned = errors.New("repository is not signed")
)

// Reason is the reason of a condition for an error about keys; empty: it is about something else.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrKeyNotFound):
		return "KeyNotFound"
	case errors.Is(err, ErrWrongKey):
		return "WrongKey"
	case errors.Is(err, ErrPlain):
		return "NotEncrypted"
	case errors.Is(err, ErrUnsigned):
		return "NotAuthenticated"
	}
	return ""
}

// keyError is one of the errors above, with a sentence instead of its text.
type keyError struct {
	kind     error
	sentence string
}

func (e *keyError) Error() string { return e.sentence }
func (e *keyError) Unwrap() error { return e.kind }

func failf(kind error, format string, args ...any) error {
	return &keyError{kind: kind, sentence: fmt.Sprintf(format, args...)}
}

// Keys are what wraps data keys. They print as their names.
type Keys struct {
	current string
	byName  map[string][]byte
}

// String names the keys.
func (k Keys) String() string { return strings.Join(k.Names(), ", ") }

// GoString names the keys.
func (k Keys) GoString() string { return k.String() }

// Names in order.
func (k Keys) Names() []string { return slices.Sorted(maps.Keys(k.byName)) }

// Current names the key that wraps data keys from now on.
func (k Keys) Current() string { return k.current }

// Source gives the keys, again whenever the previous ones don't fit or are old.
type Source func() (Keys, error)

// Fixed is a Source of keys that never change.
func Fixed(keys Keys) Source { return func() (Keys, error) { return keys, nil } }

// Folder is a Source of keys that lie in the files of a folder, as a Secret is mounted.
func Folder(dir, current string) Source {
	return func() (Keys, error) {
		entries, err := readFolder(dir)
		if err != nil {
			return Keys{}, failf(ErrKeyNotFound, "the encryption keys can't be read: %v", err)
		}
		return ParseKeys(entries, current)
	}
}

func readFolder(dir string) (map[string][]byte, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := map[string][]byte{}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), "..") {
			continue // Kubernetes' own
		}
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the Secret has just been changed
		}
		if err != nil {
			return nil, err
		}
		entries[file.Name()] = content
	}
	return entries, nil
}

var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`)

// ParseKeys reads the entries of a Secret. Each is a key of 32 bytes in hexadecimal or base64, but CurrentEntry, which
// names one. current comes before it. With neither, the only key is the current one.
func ParseKeys(entries map[string][]byte, current string) (Keys, error) {
	keys := Keys{current: current, byName: map[string][]byte{}}
	for entry, value := range entries {
		text := strings.TrimSpace(string(value))
		if entry == CurrentEntry {
			if current == "" {
				keys.current = text
			}
			continue
		}
		key := decodeKey(text)
		if key == nil || !keyName.MatchString(entry) {
			return Keys{}, failf(ErrWrongKey, "entry %q is not a valid encryption key: write 32 random bytes in hexadecimal or base64 there, "+
				"as `openssl rand -hex 32` makes them, under a name of letters, digits, dots, dashes and underscores", entry)
		}
		keys.byName[entry] = key
	}
	return keys, keys.choose()
}

// choose makes sure that there is a current key.
func (k *Keys) choose() error {
	names := k.Names()
	switch {
	case len(names) == 0:
		return failf(ErrKeyNotFound, "there is no encryption key: write 32 random bytes, as `openssl rand -hex 32` makes them, under a name of your choice")
	case k.current == "" && len(names) > 1:
		return failf(ErrKeyNotFound, "none of the encryption keys %s is named as the current one: name it in spec.encryption.key, or in the entry %q", k, CurrentEntry)
	case k.current == "":
		k.current = names[0]
	case k.byName[k.current] == nil:
		return failf(ErrKeyNotFound, "the current encryption key %s does not exist; there are only %s", k.current, k)
	}
	return nil
}

// decodeKey reads hexadecimal or base64; nil is neither, or not 32 bytes.
func decodeKey(text string) []byte {
	decoders := []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	}
	for _, decode := range decoders {
		if key, err := decode(text); err == nil && len(key) == keySize {
			return key
		}
	}
	return nil
}

// fingerprint tells keys apart without saying anything about them.
func fingerprint(key []byte) string {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte("howdah fingerprint"))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// find returns the key with the fingerprint, whatever it is called by now.
func (k Keys) find(print string) []byte {
	for _, key := range k.byName {
		if fingerprint(key) == print {
			return key
		}
	}
	return nil
}
