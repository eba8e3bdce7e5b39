package release

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"howdah.dev/howdah/cmd/howdah-images/internal/signature"
)

// ErrChanged says that a release is not what was signed.
var ErrChanged = errors.New("the release is not what was signed")

type fileSum struct{ name, sum string }

// unsummed are the files that SHA256SUMS can't have, or that check it.
var unsummed = []string{sumsName, signatureName, keyName}

// sums are those of every file of a release, by name.
func (r *Release) sums() ([]fileSum, error) { return sumsOf(r.Dist) }

func sumsOf(dist string) ([]fileSum, error) {
	var all []fileSum
	err := filepath.WalkDir(dist, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dist, path)
		if err != nil || slices.Contains(unsummed, name) {
			return err
		}
		sum, err := sumOf(path)
		all = append(all, fileSum{filepath.ToSlash(name), sum})
		return err
	})
	return all, err
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// writeSums writes the checksum of every file, and the signature of this list: base64, as cosign reads it.
func (r *Release) writeSums() error {
	files, err := r.sums()
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&list, "%s  %s\n", f.sum, f.name)
	}
	if err := r.write(sumsName, list.Bytes()); err != nil || r.Key == nil {
		return err
	}
	signed, err := r.Key.Sign(list.Bytes())
	if err != nil {
		return err
	}
	public, err := r.Key.Public().PEM()
	if err != nil {
		return err
	}
	return firstError(
		r.write(signatureName, []byte(base64.StdEncoding.EncodeToString(signed)+"\n")),
		r.write(keyName, public),
	)
}

// Verify checks the folder of a release: the signature of its list of checksums by key, which must not come from that folder, each
// checksum, and that no file came along.
func Verify(dist string, key *signature.PublicKey) error {
	list, err := os.ReadFile(filepath.Join(dist, sumsName))
	if err != nil {
		return err
	}
	encoded, err := os.ReadFile(filepath.Join(dist, signatureName))
	if err != nil {
		return fmt.Errorf("the release is not signed: %w", err)
	}
	signed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(encoded)))
	if err != nil {
		return fmt.Errorf("%w: %s is not base64", ErrChanged, signatureName)
	}
	if err := key.Verify(list, signed); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrChanged, sumsName, err)
	}
	return compare(dist, list)
}

func compare(dist string, list []byte) error {
	wanted := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		wanted[name] = sum
	}
	files, err := sumsOf(dist)
	if err != nil {
		return err
	}
	var problems []error
	for _, f := range files {
		switch wanted[f.name] {
		case f.sum:
		case "":
			problems = append(problems, fmt.Errorf("%w: %s is not in %s", ErrChanged, f.name, sumsName))
		default:
			problems = append(problems, fmt.Errorf("%w: %s has another checksum", ErrChanged, f.name))
		}
		delete(wanted, f.name)
	}
	for name := range wanted {
		problems = append(problems, fmt.Errorf("%w: %s is missing", ErrChanged, name))
	}
	return errors.Join(problems...)
}
