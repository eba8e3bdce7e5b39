package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// The limits of a manifest. Who writes one holds them, too: a backup that nobody can read is none.
const (
	maxManifest = 1 << 30   // the list of files as it is stored
	maxHeader   = 64 << 20  // the header as JSON
	maxBody     = 64 << 30  // the list of files as JSON
	maxLine     = 512 << 20 // one file of it
	maxSecrets  = 1 << 12   // with logins
	// maxWindow is more than what the streams of a manifest look back on: a reader has to keep as much.
	maxWindow = 16 << 20
	// Stored bytes may expand to plainRoom and to this many times as much, which is far more than a manifest does: a bucket is not
	// trusted, and a few KiB in it must not take a reader's memory.
	plainRoom    = 1 << 20
	maxExpansion = 256
	// maxHeaderWindow is more than what the stream of a header looks back on, which a reader has to keep.
	maxHeaderWindow = 8 << 20
	// maxRest is what a header may have apart from its packs, as JSON: a PostgresCluster has less than 2 MiB with all its Secrets. Controllers read
	// several headers at a time.
	maxRest = 2 << 20
	// restRoom of it is left for what is known only when the backup ends: its label, damaged pages and locks.
	restRoom = 512 << 10
	// maxPacks is more than what fits into a header that somebody writes, as each takes packRoom there and its names.
	maxPacks    = maxHeader / packRoom
	maxPackSize = math.MaxUint32
	// packRoom is what a pack may take in the header beside its names, headerRoom what all else in it may take.
	packRoom   = 64
	headerRoom = 8 << 20
)

// ErrTooLarge is a backup that no reader would take.
var ErrTooLarge = errors.New("the backup is too large")

// expanded is what this many stored bytes may expand to.
func expanded(stored, most int64) int64 { return min(most, plainRoom+maxExpansion*stored) }

// checkHeaderSize refuses a header that no reader would take.
func checkHeaderSize(header, stored int) error {
	if most := expanded(int64(stored), maxHeader); int64(header) > most {
		return fmt.Errorf("%w: the header of its manifest has %d MiB, and a reader takes %d MiB at most: make a full backup, with more memory, so that its packs are larger and fewer",
			ErrTooLarge, header>>20, most>>20)
	}
	return nil
}

// checkRest refuses a header that has more apart from its packs than a reader takes.
func checkRest(h Header, most int) error {
	h.Packs = nil
	if n := len(h.Cluster.Secrets); n > maxSecrets {
		return fmt.Errorf("%w: there are %d Secrets with logins of the PostgresCluster, and a reader takes %d at most", ErrTooLarge, n, maxSecrets)
	}
	rest, err := json.Marshal(h)
	if err == nil && len(rest) > most {
		err = fmt.Errorf("%w: what is recorded of the PostgresCluster and its Secrets has %d KiB, and a reader takes %d KiB of it at most", ErrTooLarge, len(rest)>>10, most>>10)
	}
	return err
}

// namesOf is what packs take in a header at most.
func namesOf(packs []Pack) (bytes int64) {
	for _, pack := range packs {
		bytes += int64(len(pack.Backup) + len(pack.Name) + packRoom)
	}
	return bytes
}

// checkBodySize refuses a list of files that no reader would take.
func checkBodySize(body, stored int64) error {
	if stored > maxManifest || body > expanded(stored, maxBody) {
		return fmt.Errorf("%w: the list of its files has %d MiB, compressed %d MiB, and a reader takes %d MiB of it at most",
			ErrTooLarge, body>>20, stored>>20, int64(maxManifest)>>20)
	}
	return nil
}

// checkPackCount refuses to continue where the packs alone would make the header too large.
func checkPackCount(names int64) error {
	if names > maxHeader-headerRoom {
		return fmt.Errorf("%w: the names of this many packs don't fit into the header of its manifest: give the backup more memory, so that its packs are larger and fewer", ErrTooLarge)
	}
	return nil
}

// Packs are read one after the other, by splitPacks.
type Packs []Pack

// DamagedPages is a list that is checked while it is read.
type DamagedPages []DamagedPage

// UnmarshalJSON reads the list.
func (d *DamagedPages) UnmarshalJSON(b []byte) (err error) {
	*d, err = readList(b, maxDamaged, func(*DamagedPage) error { return nil })
	return err
}

// Secrets is a list that is checked while it is read.
type Secrets []Secret

// UnmarshalJSON reads the list.
func (s *Secrets) UnmarshalJSON(b []byte) (err error) {
	*s, err = readList(b, maxSecrets, func(secret *Secret) error {
		if secret.Name == "" {
			return errManifest
		}
		return nil
	})
	return err
}

// readList reads at most this many entries, and stops at the first bad one.
func readList[T any](b []byte, most int, check func(*T) error) (list []T, err error) {
	if string(b) == "null" {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return nil, fmt.Errorf("%w: %w", errManifest, err)
	}
	list = []T{}
	for decoder.More() {
		var entry T
		if err := decoder.Decode(&entry); err != nil {
			return nil, err
		}
		if err := check(&entry); err != nil {
			return nil, err
		}
		if len(list) == most {
			return nil, fmt.Errorf("%w: a list has more than %d entries", errManifest, most)
		}
		list = append(list, entry)
	}
	return list, nil
}
