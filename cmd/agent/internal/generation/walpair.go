package generation

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// How a data volume and its WAL volume become a pair, and prove that they are one.

// walIdentity is volume.json of a WAL volume, and wal-volume.json of its data volume.
type walIdentity struct {
	ID string `json:"id"`
}

// pair is what both volumes have of a data generation.
type pair struct {
	Token string `json:"token"`
	// Previous is set on the WAL volume until the data volume has the new token too.
	Previous string `json:"previous,omitempty"`
}

// pairedRoot is the root of the WAL volume, which belongs to this data volume from now on at the latest. Whoever calls it is about to make new data, and so
// knows that what the volumes have can be done without, or is whole.
func (w WAL) pairedRoot() (root string, has bool, err error) {
	root, has, err = w.Root()
	if err != nil {
		return "", false, err
	}
	marker, errMarker := readFile[walIdentity](filepath.Join(string(w), markerFile))
	if err := unlessMissing(errMarker); err != nil {
		return "", false, err
	}
	switch {
	case !has && marker.ID != "":
		return "", false, fmt.Errorf("%w: the data volume has a WAL volume, which is not mounted", ErrNoWAL)
	case !has:
		return "", false, nil
	}
	return root, true, w.pair(root, marker)
}

// pair makes a WAL volume that of this data volume: a new one; one of nobody; or one whose data volume is no more, as this one is new. What the latter has is set
// aside until the new data has run for a while: it may have commits that nobody else has.
func (w WAL) pair(root string, marker walIdentity) error {
	identity, err := readFile[walIdentity](filepath.Join(root, identityFile))
	if err := unlessMissing(err); err != nil {
		return err
	}
	used, err := hasEntries(filepath.Join(root, folder))
	switch {
	case err != nil:
		return err
	case identity.ID != "" && identity == marker:
		return nil
	case used && (marker.ID != "" || identity.ID == ""):
		return fmt.Errorf("%w: it has the identity %q, and the data volume was used with %q. Bring the right volumes back; "+
			"or, if other instances have the data, delete both PersistentVolumeClaims of this instance and its pod, so that it is cloned", ErrForeignWAL, identity.ID, marker.ID)
	case used:
		if err := setAside(root); err != nil {
			return err
		}
	case identity.ID == "":
		identity.ID = rand.Text()
		if err := writeFile(filepath.Join(root, identityFile), identity); err != nil {
			return explain(Volume(root), err)
		}
	}
	return writeFile(filepath.Join(string(w), markerFile), identity)
}

// setAside keeps what a WAL volume has of a data volume that is no more.
func setAside(root string) error {
	if err := os.RemoveAll(filepath.Join(root, unpaired)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(root, folder), filepath.Join(root, unpaired)); err != nil {
		return err
	}
	return syncPaths(root)
}

// removeUnpaired removes what was set aside once this data volume has been in use for so long.
func (w WAL) removeUnpaired(olderThan time.Duration, now time.Time) error {
	root, err := w.ownRoot()
	if err != nil || root == "" {
		return err
	}
	info, err := os.Stat(filepath.Join(string(w), markerFile))
	if err != nil || now.Sub(info.ModTime()) < olderThan {
		return err
	}
	return os.RemoveAll(filepath.Join(root, unpaired))
}

// complete brings the WAL of a data generation where it belongs, makes it durable, and lets both volumes prove each other.
func (w WAL) complete(id string) (identity string, err error) {
	root, has, err := w.pairedRoot()
	if err != nil || !has {
		return "", err
	}
	if err := w.Place(id); err != nil {
		return "", err
	}
	token := pair{Token: rand.Text()}
	err = writeFile(filepath.Join(filepath.Dir(walPath(root, id)), pairFile), token)
	if err == nil {
		err = writeFile(filepath.Join(w.data().Dir(id), pairFile), token)
	}
	if err != nil {
		return "", err
	}
	known, err := readFile[walIdentity](filepath.Join(root, identityFile))
	if err != nil {
		return "", err
	}
	return known.ID, syncFilesystem(root)
}

// RenewPair gives both volumes a new token, before a server runs on a data generation: a volume that is put back to before this is recognised. A process that
// is killed between the steps leaves a pair that is still one.
func (w WAL) RenewPair(id string) error {
	g, err := w.data().Read(id)
	if err != nil || g.WALVolume == "" {
		return err
	}
	root, _, err := w.Root()
	if err != nil {
		return err
	}
	ours, theirs := filepath.Join(w.data().Dir(id), pairFile), filepath.Join(filepath.Dir(walPath(root, id)), pairFile)
	known, err := readFile[pair](ours)
	if err != nil {
		return err
	}
	next := pair{Token: rand.Text(), Previous: known.Token}
	if err := writeFile(theirs, next); err != nil {
		return err
	}
	next.Previous = ""
	if err := writeFile(ours, next); err != nil {
		return err
	}
	return writeFile(theirs, next)
}

// check says why the WAL of a data generation is not the one that belongs to it. An error that is no ErrNoWAL says that this can't be found out.
func (w WAL) check(g Generation) error {
	if g.WALVolume == "" {
		return nil
	}
	root, has, err := w.Root()
	if err != nil {
		return err
	}
	if !has {
		return noWAL(g.ID, "there is no WAL volume")
	}
	identity, err := readFile[walIdentity](filepath.Join(root, identityFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noWAL(g.ID, "the WAL volume is new or was emptied")
	case err != nil:
		return err
	case identity.ID != g.WALVolume:
		return noWAL(g.ID, fmt.Sprintf("the WAL volume is another one (its identity is %s, not %s)", identity.ID, g.WALVolume))
	}
	dir := walPath(root, g.ID)
	target, err := os.Readlink(filepath.Join(w.data().PGData(g.ID), walDirectory))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EINVAL), err == nil && target != dir:
		return noWAL(g.ID, "pg_wal does not lead to the WAL volume")
	case err != nil:
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return noWAL(g.ID, "the WAL volume was emptied")
	} else if err != nil {
		return err
	}
	return w.checkPair(g.ID, filepath.Dir(dir))
}

func (w WAL) checkPair(id, there string) error {
	ours, errOurs := readFile[pair](filepath.Join(w.data().Dir(id), pairFile))
	theirs, errTheirs := readFile[pair](filepath.Join(there, pairFile))
	if err := errors.Join(unlessMissing(errOurs), unlessMissing(errTheirs)); err != nil {
		return err
	}
	if ours.Token == "" || ours.Token != theirs.Token && ours.Token != theirs.Previous {
		return noWAL(id, "the data volume or the WAL volume was put back to an earlier state without the other")
	}
	return nil
}

// lostWALError is an ErrNoWAL: the data was whole once, and is again where its WAL comes back, so it is treated as any other that can't be read.
type lostWALError struct{ id, why string }

func (l lostWALError) Error() string {
	return fmt.Sprintf("data generation %s lacks its WAL: %s. Bring back the WAL volume that belongs to it; an instance beside a primary is cloned without that", l.id, l.why)
}

// Is says what it is.
func (l lostWALError) Is(target error) bool { return target == ErrNoWAL || target == ErrDamaged }

func noWAL(id, why string) error { return lostWALError{id, why} }

func walPath(root, id string) string { return filepath.Join(root, folder, id, walDirectory) }

func hasEntries(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

func unlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func readFile[T any](path string) (T, error) {
	var found T
	content, err := os.ReadFile(path)
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(content, &found); err != nil {
		return found, fmt.Errorf("%s can't be read: %w", path, err)
	}
	return found, nil
}

func writeFile(path string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return WriteFile(path, append(data, '\n'), fileMode)
}
