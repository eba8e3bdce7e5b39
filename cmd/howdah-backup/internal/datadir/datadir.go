// Package datadir makes a data directory of a backup that PostgreSQL starts on by itself.
package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/howdah-backup/internal/autoconf"
	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/pgmanifest"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// ErrNoSpace is a disk that is too small. The text is a sentence.
var ErrNoSpace = errors.New("not enough space")

// Job is one restore.
type Job struct {
	Store    objstore.Store
	Manifest *backup.Manifest
	Dir      string // absolute; empty or missing
	// Tablespaces maps the OID of each to an absolute folder, which is empty or missing too. PostgreSQL refuses a tablespace
	// that is a folder in pg_tblspc itself.
	Tablespaces map[string]string
	Recovery    *autoconf.Settings // nil: PostgreSQL stops where the backup ends
	// Trusted: only who has the keys of the repository could write it. Otherwise settings that run code are left out.
	Trusted bool
	Workers int
	Memory  int64 // bytes of buffers
	Report  func(what string, done, total int64)

	Dropped []string // the settings that were left out, once it has run
}

const (
	control = "global/pg_control"
	// unfinished is the name of pg_control until everything else is there: PostgreSQL doesn't start without that file, so
	// nobody takes a restore that was killed for a database.
	unfinished = control + ".unfinished"
)

// onDisk is the name that a file has until the restore is whole.
func onDisk(name string) string {
	if name == control {
		return unfinished
	}
	return name
}

// Run restores. After an error, or when ctx ends, nothing of it is left.
func (j *Job) Run(ctx context.Context) (err error) {
	if err := j.checkSpace(); err != nil {
		return err
	}
	places := j.places()
	if err := j.fetch(ctx); err != nil {
		return err // that has cleared away by itself
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, clearPlaces(places))
		}
	}()
	if err := os.Chmod(j.Dir, 0o700); err != nil { // PostgreSQL refuses what others may look into
		return err
	}
	if err := j.fetchWAL(ctx); err != nil {
		return err
	}
	if !j.Trusted {
		if j.Dropped, err = autoconf.DropCode(j.Dir); err != nil {
			return err
		}
	}
	if j.Recovery != nil {
		if err := j.Recovery.Write(j.Dir); err != nil {
			return err
		}
	}
	if err := pgmanifest.Write(ctx, j.Dir, j.Manifest, onDisk); err != nil {
		return err
	}
	return j.finish()
}

// fetch restores the files, pg_control under its other name.
func (j *Job) fetch(ctx context.Context) error {
	hidden := *j.Manifest
	hidden.Files = append([]backup.File(nil), j.Manifest.Files...)
	for i := range hidden.Files {
		hidden.Files[i].Path = onDisk(hidden.Files[i].Path)
	}
	return backup.Restore(ctx, j.Store, &hidden, j.Dir, backup.RestoreOptions{
		Tablespaces: j.Tablespaces, Workers: j.Workers, MemoryLimit: j.Memory,
		Progress: func(p backup.Progress) {
			what := "Fetching"
			if p.Phase == backup.Syncing {
				what = "Making durable"
			}
			j.Report(what, p.Done, p.Total)
		},
	})
}

// checkSpace looks whether everything but the tablespaces fits where PGDATA goes.
func (j *Job) checkSpace() error {
	dir := j.Dir
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	stat := unix.Statfs_t{}
	if err := unix.Statfs(dir, &stat); err != nil {
		return nil // writing will tell
	}
	needed := int64(0)
	for i := range j.Manifest.Files {
		f := &j.Manifest.Files[i]
		for _, part := range f.Parts {
			if !strings.HasPrefix(f.Path, "pg_tblspc/") {
				needed += int64(part.Length)
			}
		}
	}
	if free := int64(stat.Bavail * uint64(stat.Bsize)); free < needed {
		return fmt.Errorf("%w: %s has %s free, and the backup needs %s", ErrNoSpace, dir, display.Bytes(free), display.Bytes(needed))
	}
	return nil
}

// walFetchers times the default size of a segment is the memory for WAL.
const walFetchers = 3

// fetchWAL puts the WAL that the backup needs into pg_wal: the server comes up with that much without the bucket, and
// pg_verifybackup looks for it there.
func (j *Job) fetchWAL(ctx context.Context) error {
	header := &j.Manifest.Header
	first, err := postgres.ParseSegment(header.WAL.First, header.WAL.SegmentSize)
	if err != nil {
		return err
	}
	last, err := postgres.ParseSegment(header.WAL.Last, header.WAL.SegmentSize)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(j.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll("pg_wal", 0o700); err != nil {
		return err
	}
	archive, done, total := wal.New(j.Store), atomic.Int64{}, last.End().Sub(first.Start())
	if header.Timeline > 1 {
		err := j.fetchFile(ctx, archive, root, postgres.HistoryName(header.Timeline))
		if errors.Is(err, backup.ErrWALMissing) { // PostgreSQL does without it, if need be
			err = root.Remove(path.Join("pg_wal", postgres.HistoryName(header.Timeline)))
		}
		if err != nil {
			return err
		}
	}
	outer := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, min(walFetchers, int(3*postgres.DefaultSegSize/header.WAL.SegmentSize))))
	for segment := first; segment.Number <= last.Number && ctx.Err() == nil; segment = segment.Next() {
		group.Go(func() error {
			if err := j.fetchFile(ctx, archive, root, segment.Name()); err != nil {
				return err
			}
			j.Report("Fetching WAL", done.Add(int64(segment.SegSize)), total)
			return nil
		})
	}
	return errors.Join(group.Wait(), outer.Err())
}

func (j *Job) fetchFile(ctx context.Context, archive *wal.Archive, root *os.Root, name string) error {
	file, err := root.OpenFile(path.Join("pg_wal", name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = archive.GetTo(ctx, j.Manifest.Lineage, name, file)
	err = errors.Join(err, file.Close())
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%w: %s of lineage %s, without which backup %s can't be restored", backup.ErrWALMissing, name, j.Manifest.Lineage, j.Manifest.ID)
	}
	return err
}

// finish makes everything durable, and then gives pg_control its name.
func (j *Job) finish() error {
	root, err := os.OpenRoot(j.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	folder, err := root.Open(path.Dir(control))
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := backup.SyncTree(j.Dir); err != nil {
		return fmt.Errorf("make %s durable: %w", j.Dir, err)
	}
	if err := root.Rename(unfinished, control); err != nil {
		return err
	}
	return folder.Sync()
}

// places are the folders that a restore fills, and whether each was there before.
func (j *Job) places() map[string]bool {
	places := map[string]bool{}
	for _, dir := range append([]string{j.Dir}, values(j.Tablespaces)...) {
		_, err := os.Stat(dir)
		places[dir] = !errors.Is(err, fs.ErrNotExist)
	}
	return places
}

func values(m map[string]string) (all []string) {
	for _, value := range m {
		all = append(all, value)
	}
	return all
}

// clearPlaces empties the folders, and removes those that weren't there.
func clearPlaces(places map[string]bool) error {
	var errs []error
	for dir, before := range places {
		children, err := os.ReadDir(dir)
		errs = append(errs, err)
		for _, child := range children {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, child.Name())))
		}
		if !before {
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// Tablespace is one that a backup has.
type Tablespace struct {
	OID      string `json:"oid"`
	Location string `json:"location"` // where it was
}

// Tablespaces lists them.
func Tablespaces(m *backup.Manifest) []Tablespace {
	var found []Tablespace
	for i := range m.Files {
		if f := &m.Files[i]; f.Kind == backup.Tablespace {
			found = append(found, Tablespace{OID: strings.TrimPrefix(f.Path, "pg_tblspc/"), Location: f.Link})
		}
	}
	return found
}
