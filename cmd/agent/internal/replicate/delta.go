package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/postgres"
)

// deltaSessions compare and read files of the source at a time.
const deltaSessions = 3

// deltaMajor is the first version with the functions that a clone with own files calls.
const deltaMajor = 15

const (
	controlFile  = "global/pg_control"
	controlReads = 10 // of the control file, until one is not half-written
)

// deltaClone copies the data directory of a primary into that of a new data generation, and takes from the directory own what is the same there, which
// SHA-256 checksums of small parts tell. Both may be the same. It returns how many bytes it took. As with any base backup, files change while they
// are read, and the WAL from the start of the backup to its end, which is received meanwhile, makes them consistent.
func (i Instance) deltaClone(ctx context.Context, source settings.Upstream, at origin, own, id string, progress func(done, total int64)) (taken int64, err error) {
	pgdata := i.Volume.PGData(id)
	if err := makeFolders(pgdata); err != nil {
		return 0, err
	}
	if err := generation.WAL(i.Volume).Place(id); err != nil {
		return 0, err
	}
	if err := os.Remove(filepath.Join(pgdata, controlFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	from, err := os.OpenRoot(own)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := os.OpenRoot(pgdata)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	receiver, err := i.receiveWAL(ctx, source, at.slot, pgdata)
	if err != nil {
		return 0, err
	}
	d := &delta{Instance: i, source: source, own: from, to: to, inPlace: own == pgdata, progress: progress}
	end, err := d.copyAll(ctx)
	if err == nil {
		err = receiver.awaitLSN(end)
	}
	cancel()
	<-receiver.ended
	return d.taken.Load(), errors.Join(err, removePartial(pgdata))
}

// makeFolders creates the data directory with the folders that a base backup has empty.
func makeFolders(pgdata string) error {
	emptied, below := backup.EmptyFolders()
	for _, folder := range emptied {
		if err := os.RemoveAll(filepath.Join(pgdata, folder)); err != nil {
			return err
		}
	}
	for _, folder := range append(append([]string{""}, emptied...), below...) {
		if err := os.MkdirAll(filepath.Join(pgdata, folder), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// removePartial removes the segment that was being received when there was enough.
func removePartial(pgdata string) error {
	partial, err := filepath.Glob(filepath.Join(pgdata, "pg_wal", "*.partial"))
	for _, path := range partial {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// delta is one clone with own files.
type delta struct {
	Instance
	source   settings.Upstream
	own, to  *os.Root
	inPlace  bool // they are the same
	progress func(done, total int64)

	folders     []string // of the source, each after the one that it is in
	total       int64
	done, taken atomic.Int64
}

// copyAll copies everything within a backup of the source, and returns up to where that needs WAL.
func (d *delta) copyAll(ctx context.Context) (end postgres.LSN, err error) {
	err = d.with(ctx, d.source, func(conn *pgx.Conn) error {
		if err := suits(ctx, conn); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "SELECT pg_backup_start($1, true)", "clone for "+d.Pod); err != nil {
			return err
		}
		files, err := d.listFiles(ctx, conn)
		if err != nil {
			return err
		}
		if err := d.removeOthers(files); err != nil {
			return err
		}
		if err := d.copyFiles(ctx, files); err != nil {
			return err
		}
		if err := d.copyControl(ctx, conn); err != nil {
			return err
		}
		var lsn, label string
		if err := conn.QueryRow(ctx, "SELECT lsn::text, labelfile FROM pg_backup_stop(false)").Scan(&lsn, &label); err != nil {
			return err
		}
		if end, err = postgres.ParseLSN(lsn); err != nil {
			return err
		}
		return d.to.WriteFile("backup_label", []byte(label), 0o600)
	})
	return end, err
}

// suits says why a source can't be cloned in this way.
func suits(ctx context.Context, conn *pgx.Conn) error {
	var replica, tablespaces bool
	err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery(),
		EXISTS (SELECT FROM pg_tablespace WHERE pg_tablespace_location(oid) LIKE '/%')`).Scan(&replica, &tablespaces)
	switch {
	case err != nil:
		return err
	case replica:
		return errors.New("the source is a replica")
	case tablespaces:
		return errors.New("the source has tablespaces outside of its data directory")
	}
	return nil
}

// sourceFile is a file of the source's data directory, and its size when it was listed.
type sourceFile struct {
	path string
	size int64
}

const listQuery = `WITH RECURSIVE entries (path, size, isdir) AS (
	SELECT name, stat.size, stat.isdir FROM pg_ls_dir('.', true, false) AS name, pg_stat_file(name, true) AS stat
	UNION ALL
	SELECT parent.path || '/' || name, stat.size, stat.isdir
	FROM entries AS parent, pg_ls_dir(parent.path, true, false) AS name, pg_stat_file(parent.path || '/' || name, true) AS stat
	WHERE parent.isdir AND parent.path <> ALL ($1::text[])
) SELECT path, size, isdir FROM entries WHERE isdir IS NOT NULL ORDER BY path COLLATE "C"`

// listFiles lists what is to be copied.
func (d *delta) listFiles(ctx context.Context, conn *pgx.Conn) (files []sourceFile, err error) {
	emptied, _ := backup.EmptyFolders()
	rows, err := conn.Query(ctx, listQuery, emptied)
	if err != nil {
		return nil, err
	}
	var left []string // out, with all below them
	for rows.Next() {
		f, folder := sourceFile{}, false
		if err := rows.Scan(&f.path, &f.size, &folder); err != nil {
			return nil, err
		}
		switch {
		case slices.ContainsFunc(left, func(folder string) bool { return strings.HasPrefix(f.path, folder) }):
		case backup.LeftOut(f.path):
			left = append(left, f.path+"/")
		case folder:
			d.folders = append(d.folders, f.path)
		case f.path != controlFile: // is last
			files = append(files, f)
			d.total += f.size
		}
	}
	return files, rows.Err()
}

// removeOthers leaves nothing in the directory that the source doesn't have, and creates the folders that it has.
func (d *delta) removeOthers(files []sourceFile) error {
	emptied, below := backup.EmptyFolders()
	wanted := map[string]fs.FileMode{".": fs.ModeDir}
	for _, folder := range slices.Concat(emptied, below, d.folders) {
		wanted[folder] = fs.ModeDir
	}
	for _, f := range files {
		wanted[f.path] = 0
	}
	err := fs.WalkDir(d.to.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == received || strings.HasPrefix(path, received+"/") {
			return err
		}
		if kind, is := wanted[path]; is && kind == entry.Type() {
			return nil
		}
		if err := d.to.RemoveAll(path); err != nil || !entry.IsDir() {
			return err
		}
		return fs.SkipDir
	})
	for _, folder := range d.folders {
		if folder != received {
			err = errors.Join(err, d.to.MkdirAll(folder, 0o700))
		}
	}
	return err
}

// received is the folder whose content is being received, and that may be a link to the WAL volume.
const received = "pg_wal"

func (d *delta) copyFiles(ctx context.Context, files []sourceFile) error {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan sourceFile)
	group.Go(func() error {
		defer close(next)
		for _, f := range files {
			select {
			case next <- f:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range deltaSessions {
		group.Go(func() error {
			return d.with(ctx, d.source, func(conn *pgx.Conn) error {
				for f := range next {
					if err := d.copyFile(ctx, conn, f); err != nil {
						return fmt.Errorf("%s: %w", f.path, err)
					}
				}
				return nil
			})
		})
	}
	return group.Wait()
}

// copyControl copies the control file, which has to be read after all others.
func (d *delta) copyControl(ctx context.Context, conn *pgx.Conn) error {
	for range controlReads {
		content, err := readRange(ctx, conn, sourceFile{path: controlFile}, 0, 1<<20)
		if err != nil {
			return err
		}
		if backup.IntactControl(content) {
			return d.to.WriteFile(controlFile, content, 0o600)
		}
	}
	return errors.New("the checksum of the source's control file is wrong")
}
