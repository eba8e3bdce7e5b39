// Package generation keeps the data generations of a volume: each is a folder with a PGDATA and a generation.json that
// is written last. One that has no generation.json is not whole, and nobody runs it.
package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Origin is how a generation was made.
type Origin string

// The origins.
const (
	Initdb  Origin = "initdb"
	Restore Origin = "restore"
	Upgrade Origin = "upgrade"
	Clone   Origin = "clone" // of another instance
	// Cluster is a clone of another cluster, with which this one begins.
	Cluster Origin = "cluster"
	// Standby followed the archive of another cluster until it was promoted.
	Standby Origin = "standby"
)

// Work that a generation's first server has to do in the background; see Generation.Maintenance.
const (
	MaintainExtensions = "Extensions" // extensions that are older than the programs
	MaintainStatistics = "Statistics" // the planner's statistics
)

// What can be wrong, for errors.Is.
var (
	// ErrNotFound is a generation that has no folder.
	ErrNotFound = errors.New("no such data generation")
	// ErrIncomplete is a generation whose maker did not finish.
	ErrIncomplete = errors.New("data generation is not whole")
	// ErrDamaged is a generation whose file can't be read. It is written in one step, so the data was whole once, and may still be.
	ErrDamaged = errors.New("the file of the data generation is damaged")
	// ErrWhole is a generation that is there already and is never written again.
	ErrWhole = errors.New("data generation is there already")
	// ErrName is an id that can't be the name of a folder.
	ErrName = errors.New("bad id of a data generation")
	// ErrCurrent is a generation that can't be removed because it is the adopted one.
	ErrCurrent = errors.New("data generation is in use")
)

// Generation is generation.json.
type Generation struct {
	ID string `json:"id"`
	// SystemIdentifier as pg_controldata prints it, in decimal.
	SystemIdentifier string `json:"systemIdentifier"`
	MajorVersion     int    `json:"majorVersion"`
	Origin           Origin `json:"origin"`
	// Of is the data generation that it is a clone of; empty: it is the original.
	Of string `json:"of,omitempty"`
	// From names what it was made from: a backup, the generation before a major upgrade, or the instance that was cloned.
	From      string    `json:"from,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// Maintenance that the first server on it has to do: MaintainExtensions, MaintainStatistics.
	Maintenance []string `json:"maintenance,omitempty"`
	// WALVolume is the identity of the volume that its WAL is on; empty: it is in the data directory. Complete sets it.
	WALVolume string `json:"walVolume,omitempty"`
}

const (
	folder   = "generations"
	file     = "generation.json"
	data     = "pgdata"
	pointer  = "current"
	dirMode  = 0o700
	fileMode = 0o600
)

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Volume is the root folder of a data volume, agentapi.VolumeDir in a pod.
type Volume string

// Dir is the folder of a generation.
func (v Volume) Dir(id string) string { return filepath.Join(string(v), folder, id) }

// PGData is the data directory of a generation.
func (v Volume) PGData(id string) string { return filepath.Join(v.Dir(id), data) }

// Read returns a whole generation. Errors: ErrName, ErrNotFound, ErrIncomplete, ErrDamaged, and with the latter ErrNoWAL.
func (v Volume) Read(id string) (Generation, error) {
	if err := checkID(id); err != nil {
		return Generation{}, err
	}
	content, err := os.ReadFile(filepath.Join(v.Dir(id), file))
	if errors.Is(err, os.ErrNotExist) {
		return Generation{}, v.missing(id)
	}
	if err != nil {
		return Generation{}, err
	}
	g := Generation{}
	if err := json.Unmarshal(content, &g); err != nil {
		return Generation{}, fmt.Errorf("%w: %s of %s can't be read: %w", ErrDamaged, file, id, err)
	}
	if g.ID != id {
		return Generation{}, fmt.Errorf("%w: %s of %s is that of %q", ErrDamaged, file, id, g.ID)
	}
	if err := WAL(v).check(g); err != nil {
		return Generation{}, err
	}
	return g, nil
}

func (v Volume) missing(id string) error {
	if _, err := os.Lstat(v.Dir(id)); err == nil {
		return fmt.Errorf("%w: %s has no %s", ErrIncomplete, id, file)
	}
	return fmt.Errorf("%w: %s", ErrNotFound, id)
}

// Begin makes the empty folder of a new generation and returns the path for its PGDATA, which is not made. What a
// killed run left there is removed first. ErrWhole: the generation was completed before, so there is nothing to do. Nothing is removed where that
// can't be found out.
func (v Volume) Begin(id string) (pgdata string, err error) {
	pgdata, err = create(v, id)
	return pgdata, explain(v, err)
}

func create(v Volume, id string) (pgdata string, err error) {
	_, err = v.Read(id)
	switch {
	case err == nil:
		return "", fmt.Errorf("%w: %s", ErrWhole, id)
	case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrIncomplete):
		return "", err
	}
	if _, _, err := WAL(v).pairedRoot(); err != nil {
		return "", err
	}
	if err := removeFolders(v, id); err != nil {
		return "", fmt.Errorf("remove what a former run left of %s: %w", id, err)
	}
	if err := os.MkdirAll(v.Dir(id), dirMode); err != nil {
		return "", err
	}
	return v.PGData(id), syncPaths(filepath.Dir(v.Dir(id)), string(v))
}

// explain adds to an error what to do where the process may not write to the volume at all. Kubernetes gives a volume to the group of the pod
// (fsGroup), but for storage that ignores that, such as NFS.
func explain(v Volume, err error) error {
	if !errors.Is(err, fs.ErrPermission) || unix.Access(string(v), unix.W_OK|unix.X_OK) == nil {
		return err
	}
	belongs := ""
	if info, statErr := os.Stat(string(v)); statErr == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			belongs = fmt.Sprintf(", and its root belongs to uid %d and gid %d with mode %04o", stat.Uid, stat.Gid, info.Mode().Perm())
		}
	}
	return fmt.Errorf("%w. The process runs with uid %d and gid %d, for which the volume must be writable%s. Storage that ignores fsGroup, such as NFS or EFS, "+
		"must be prepared for this user, for example by chown or with an access point; or use another StorageClass", err, os.Getuid(), os.Getgid(), belongs)
}

// removeFolders removes what both volumes have of a data generation, the data last: it is what leads to the WAL.
func removeFolders(v Volume, id string) error {
	if err := WAL(v).remove(id); err != nil {
		return err
	}
	return os.RemoveAll(v.Dir(id))
}

// Complete makes everything of the generation durable and then writes generation.json: from here on it is whole. Where there is a WAL volume, its WAL is there.
func (v Volume) Complete(g Generation) error {
	if err := checkID(g.ID); err != nil {
		return err
	}
	if g.SystemIdentifier == "" || g.MajorVersion == 0 {
		return fmt.Errorf("%w: %s: system identifier or major version is unknown", ErrIncomplete, g.ID)
	}
	identity, err := WAL(v).complete(g.ID)
	if err != nil {
		return err
	}
	g.WALVolume = identity
	if err := Sync(v, g.ID); err != nil {
		return err
	}
	content, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(v.Dir(g.ID), file), append(content, '\n'), fileMode)
}

// Sync makes all that a generation has durable, the WAL first.
func Sync(v Volume, id string) error {
	root, has, err := WAL(v).Root()
	if err == nil && has {
		err = syncFilesystem(root)
	}
	if err == nil {
		err = syncFilesystem(v.Dir(id))
	}
	if err != nil {
		return fmt.Errorf("make data generation %s durable: %w", id, err)
	}
	return nil
}

// Adopt points `current` at a whole generation, by one rename, and makes that durable.
func (v Volume) Adopt(id string) error {
	if _, err := v.Read(id); err != nil {
		return err
	}
	if err := v.unmark(id, replacedFile); err != nil {
		return err
	}
	if now, err := v.Current(); err == nil && now == id {
		return syncPaths(string(v))
	} else if err == nil {
		if err := leave(v, now, id); err != nil {
			return err
		}
	}
	temporary := filepath.Join(string(v), "."+pointer+".new")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Join(folder, id), temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(string(v), pointer)); err != nil {
		return err
	}
	return syncPaths(string(v))
}

// Current is the id that `current` points at; ErrNotFound if nothing was adopted yet.
func (v Volume) Current() (string, error) {
	target, err := os.Readlink(filepath.Join(string(v), pointer))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w: none was adopted yet", ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	id := filepath.Base(target)
	return id, checkID(id)
}

// Entry is one folder of a generation.
type Entry struct {
	ID         string
	Whole      bool
	Generation Generation // if it is whole
	Bytes      int64      // that its files take on disk
}

// List returns all generations in the order of their ids.
func (v Volume) List() ([]Entry, error) {
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(ids))
	for _, id := range ids {
		entry := Entry{ID: id}
		g, err := v.Read(id)
		if err == nil {
			entry.Whole, entry.Generation = true, g
		}
		if entry.Bytes, err = diskUsage(v.Dir(id)); err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func (v Volume) ids() ([]string, error) {
	found, err := os.ReadDir(filepath.Join(string(v), folder))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range found {
		if entry.IsDir() && idPattern.MatchString(entry.Name()) {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// RemoveIncomplete removes what killed runs left, but for the ids in keep, and returns what it removed. The caller has
// to know that nobody works on the volume.
func (v Volume) RemoveIncomplete(keep ...string) ([]string, error) {
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, id := range ids {
		if _, err := v.Read(id); slices.Contains(keep, id) || !errors.Is(err, ErrIncomplete) {
			continue
		}
		if now, err := v.Current(); err == nil && now == id {
			continue
		}
		if err := removeFolders(v, id); err != nil {
			return removed, err
		}
		removed = append(removed, id)
	}
	return removed, nil
}

// Remove removes a generation that is not the current one. Half of it may be left by a crash, and is then not whole.
func (v Volume) Remove(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if now, err := v.Current(); err == nil && now == id {
		return fmt.Errorf("%w: %s", ErrCurrent, id)
	}
	if err := os.Remove(filepath.Join(v.Dir(id), file)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := syncPaths(v.Dir(id)); err != nil && !errors.Is(err, os.ErrNotExist) { // it must not seem to be whole after a power cut, with half of its data
		return err
	}
	return removeFolders(v, id)
}

func checkID(id string) error {
	if !idPattern.MatchString(id) {
		return fmt.Errorf("%w: %q: want letters, digits, dots, dashes and underscores", ErrName, id)
	}
	return nil
}
