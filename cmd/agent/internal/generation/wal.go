package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Where the WAL of a data generation lies is decided here and nowhere else. Without a WAL volume it is in the data directory. With one, which is
// mounted beside the data volume, pg_wal is a link to generations/<id>/pg_wal there.
//
// The two volumes of an instance belong together. A server on data without its latest WAL would come up without commits that were
// acknowledged, so each side carries what proves the other: the WAL volume has an identity, which generation.json names, and both
// have the same token, which is another one each time that a server is about to be run. See WAL.check.

const (
	walSuffix    = "-wal"
	walDirectory = "pg_wal"
	identityFile = "volume.json"     // of the WAL volume
	markerFile   = "wal-volume.json" // of the data volume: the identity of its WAL volume
	pairFile     = "pair.json"       // beside generation.json, and beside pg_wal on the WAL volume
	unpaired     = "unpaired"        // on the WAL volume: what it had of a data volume that is no more
)

// What can be wrong with a WAL volume, for errors.Is.
var (
	// ErrNoWAL is a data generation whose WAL is not where it belongs, so that no server may be started on it. It is an ErrDamaged as well.
	ErrNoWAL = errors.New("the WAL is missing")
	// ErrForeignWAL is a WAL volume that another data volume uses.
	ErrForeignWAL = errors.New("the WAL volume belongs to another data volume")
)

// WAL is the WAL of the data generations of a data volume, wherever it lies.
type WAL Volume

func (w WAL) data() Volume { return Volume(w) }

// Root is where the WAL volume of an instance is mounted, if it has one.
func (w WAL) Root() (root string, has bool, err error) {
	root = string(w) + walSuffix
	info, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, err
	case !info.IsDir():
		return "", false, fmt.Errorf("%s is not a folder", root)
	}
	return root, true, nil
}

// On is the root of the volume that the WAL of new data is on, of which only the space is of interest.
func (w WAL) On() Volume {
	if root, has, err := w.Root(); err == nil && has {
		return Volume(root)
	}
	return w.data()
}

// Space is how many bytes are free on the WAL volume; false: there is none.
func (w WAL) Space() (free int64, has bool, err error) {
	root, has, err := w.Root()
	if err != nil || !has {
		return 0, has, err
	}
	_, free, err = Volume(root).Space()
	return free, true, err
}

// Used are the bytes that all copies of a data generation take on the WAL volume; 0: there is none.
func (w WAL) Used(by string) (int64, error) {
	root, has, err := w.Root()
	if err != nil || !has {
		return 0, err
	}
	return used(w.data(), by, func(id string) string { return walPath(root, id) })
}

// full is how little space there is on a volume that somebody has found full.
const full = 32 << 20

// FullSize is the field of a cluster's storage that is too small where a volume was found full: size, or wal.size.
func (w WAL) FullSize() string {
	if free, has, err := w.Space(); err == nil && has && free < full {
		return "wal.size"
	}
	return "size"
}

// New is the empty folder, on the WAL volume, that pg_wal of a new data generation is to be a link to; empty: there is no WAL volume. What an earlier
// attempt has left there is removed. Programs that create a data directory make the link themselves.
func (w WAL) New(id string) (string, error) {
	if err := w.refuseWhole(id); err != nil {
		return "", err
	}
	root, has, err := w.pairedRoot()
	if err != nil || !has {
		return "", err
	}
	dir := walPath(root, id)
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		return "", fmt.Errorf("remove what a former run left of the WAL of %s: %w", id, err)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", explain(Volume(root), err)
	}
	return dir, syncPaths(filepath.Dir(dir), filepath.Join(root, folder), root)
}

// Beside is a folder of a data generation for WAL that becomes a part of pg_wal by a rename: it is on the same volume.
func (w WAL) Beside(id, name string) string {
	root, has, err := w.Root()
	if err == nil && has {
		if target, err := os.Readlink(filepath.Join(w.data().PGData(id), walDirectory)); err == nil && target == walPath(root, id) {
			return filepath.Join(filepath.Dir(target), name)
		}
	}
	return filepath.Join(w.data().Dir(id), name)
}

// Place brings pg_wal of a new data generation to the WAL volume, with what is in it, where it isn't there yet. A link to anywhere else is one of the data
// generation that this one has its files from, and counts for nothing.
func (w WAL) Place(id string) error {
	root, has, err := w.Root()
	if err != nil || !has {
		return err
	}
	place := filepath.Join(w.data().PGData(id), walDirectory)
	target, err := os.Readlink(place)
	if err == nil && target == walPath(root, id) {
		return syncPaths(w.data().PGData(id))
	}
	linked := err == nil
	dir, err := w.New(id)
	if err != nil {
		return err
	}
	if !linked {
		if err := copyFolder(place, dir); err != nil {
			return fmt.Errorf("bring the WAL of %s to the WAL volume: %w", id, err)
		}
		if err := syncFilesystem(dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(place); err != nil {
		return err
	}
	if err := os.Symlink(dir, place); err != nil {
		return err
	}
	return syncPaths(w.data().PGData(id))
}

// copyFolder copies a folder of plain files and folders into an empty one. One that isn't there is empty.
func copyFolder(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		switch {
		case entry.IsDir():
			if err = os.Mkdir(target, dirMode); err == nil {
				err = copyFolder(source, target)
			}
		case entry.Type().IsRegular():
			err = copyFile(source, target)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder", source)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = target.ReadFrom(source)
	return errors.Join(err, target.Close())
}

// drop takes the link to the WAL of another data generation out of a data directory that was that one's.
func (w WAL) drop(id string) error {
	place := filepath.Join(w.data().PGData(id), walDirectory)
	info, err := os.Lstat(place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return err
	}
	if err := os.Remove(place); err != nil {
		return err
	}
	return syncPaths(w.data().PGData(id))
}

// remove removes the WAL of a data generation from the WAL volume, ahead of its folder on the data volume, by which it is found. What a WAL volume of
// somebody else has is left alone.
func (w WAL) remove(id string) error {
	root, err := w.ownRoot()
	if err != nil || root == "" {
		return err
	}
	dir := filepath.Dir(walPath(root, id))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err = syncPaths(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ownRoot is the root of the WAL volume if it belongs to this data volume; empty: there is none, or another one.
func (w WAL) ownRoot() (string, error) {
	root, has, err := w.Root()
	if err != nil || !has {
		return "", err
	}
	marker, errMarker := readFile[walIdentity](filepath.Join(string(w), markerFile))
	identity, errIdentity := readFile[walIdentity](filepath.Join(root, identityFile))
	if err := errors.Join(unlessMissing(errMarker), unlessMissing(errIdentity)); err != nil {
		return "", err
	}
	if identity.ID == "" || identity != marker {
		return "", nil
	}
	return root, nil
}

func (w WAL) refuseWhole(id string) error {
	if _, err := w.data().Read(id); errors.Is(err, ErrNotFound) || errors.Is(err, ErrIncomplete) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrWhole, id)
}
