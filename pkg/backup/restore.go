package backup

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

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/pkg/objstore"
)

// Restore writes the backup into target, which must be empty or missing, checks every byte against
// its checksums, adds backup_label and tablespace_map, and makes it all durable. Recovery settings
// and recovery.signal are the caller's. After an error the target is empty again, as far as that
// could be done; only Restore's success means that target is whole.
//
// Errors: *CorruptError (ErrCorrupt), ErrTarget, those of objstore.
func Restore(ctx context.Context, store objstore.Store, manifest *Manifest, target string, opts RestoreOptions) error {
	r := &restoring{manifest: manifest, opts: opts, places: map[string]*place{}}
	defer r.close()
	if err := r.prepare(target); err != nil {
		return errors.Join(err, r.clear())
	}
	if err := r.run(ctx, store); err != nil {
		return errors.Join(err, r.clear())
	}
	return nil
}

// restoring is one run of Restore.
type restoring struct {
	manifest *Manifest
	opts     RestoreOptions
	places   map[string]*place // PGDATA as "", mapped tablespaces by their OID
	buffered atomic.Bool       // the file system wants everything through the page cache
}

// place is a folder that files are restored into. Nothing outside of it is touched, whatever the
// manifest says.
type place struct {
	path    string
	root    *os.Root
	created bool // by this restore
}

// prepare opens the places, which must be empty, and makes the folders.
func (r *restoring) prepare(target string) error {
	if err := r.openPlace("", target); err != nil {
		return err
	}
	for i := range r.manifest.Files {
		f := &r.manifest.Files[i]
		if dir, mapped := r.mapped(f); mapped {
			if err := r.openPlace(filepath.Base(f.Path), dir); err != nil {
				return err
			}
			continue
		}
		if f.Kind != Dir && f.Kind != Tablespace {
			continue
		}
		root, name := r.locate(f.Path)
		if err := root.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// mapped says where a tablespace goes that has a place of its own.
func (r *restoring) mapped(f *File) (string, bool) {
	if f.Kind != Tablespace {
		return "", false
	}
	dir, ok := r.opts.Tablespaces[filepath.Base(f.Path)]
	return dir, ok
}

func (r *restoring) openPlace(oid, path string) error {
	created := false
	children, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("%w: %w", ErrTarget, err)
		}
		created = true
	case err != nil:
		return fmt.Errorf("%w: %w", ErrTarget, err)
	case len(children) > 0:
		return fmt.Errorf("%w: %s is not empty, it holds %s", ErrTarget, path, children[0].Name())
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	r.places[oid] = &place{path: path, root: root, created: created}
	return nil
}

// locate finds the place of a path, and the name in it.
func (r *restoring) locate(path string) (*os.Root, string) {
	oid, name := inTablespace(path)
	if p, mapped := r.places[oid]; mapped {
		return p.root, name
	}
	return r.places[""].root, path
}

// inTablespace splits the path of a file of a tablespace. Of any other file the OID is empty.
func inTablespace(path string) (oid, name string) {
	below, ok := strings.CutPrefix(path, "pg_tblspc/")
	oid, name, deeper := strings.Cut(below, "/")
	if !ok || !deeper {
		return "", path
	}
	return oid, name
}

func (r *restoring) run(ctx context.Context, store objstore.Store) error {
	present := openPresent(r.opts.Present, r.manifest)
	defer present.close()
	fetcher := &fetcher{
		store: store, head: &r.manifest.Head, present: present, newSink: func() sink { return &fileSink{restoring: r} },
	}
	total := contentBytes(r.manifest.Files)
	report := newReporter(r.opts.Progress, func() Progress {
		p := Progress{Done: fetcher.content.Load(), Total: total, Stored: fetcher.stored.Load()}
		if present != nil {
			p.Taken = present.taken.Load()
		}
		return p
	})
	defer report.close()
	report.enter(Copying)
	if _, err := fetcher.run(ctx, r.manifest.Files, fetchers(r.opts.Workers, r.opts.MemoryLimit), 0); err != nil {
		return err
	}
	report.enter(Syncing)
	if err := r.finish(); err != nil {
		return err
	}
	return r.sync()
}

// fetchers is how many goroutines fit into the memory.
func fetchers(wanted int, limit int64) int {
	if limit == 0 {
		limit = defaultMemory
	}
	const each = maxRange + 3*minFrame
	return int(max(1, min(int64(workers(wanted)*fetchersPerWorker), limit/each)))
}

// finish makes what the packs don't hold: empty files, modes, links, and the files that tell
// PostgreSQL to recover from a backup.
func (r *restoring) finish() error {
	// Backwards: a folder may lose the permission to write only after what is in it.
	for i := range slices.Backward(r.manifest.Files) {
		if err := r.finishFile(&r.manifest.Files[i]); err != nil {
			return err
		}
	}
	root := r.places[""].root
	if err := root.WriteFile("backup_label", []byte(r.manifest.BackupLabel), 0o600); err != nil {
		return err
	}
	if lines := r.tablespaceMap(); lines != "" {
		return root.WriteFile("tablespace_map", []byte(lines), 0o600)
	}
	return nil
}

func (r *restoring) finishFile(f *File) error {
	root, name := r.locate(f.Path)
	if dir, mapped := r.mapped(f); mapped {
		return os.Symlink(dir, filepath.Join(r.places[""].path, f.Path))
	}
	switch f.Kind {
	case Symlink:
		return root.Symlink(f.Link, name)
	case Dir, Tablespace:
		return chmod(root, name, f, 0o700)
	}
	end := int64(0)
	if n := len(f.Parts); n > 0 {
		end = f.Parts[n-1].FileOffset + int64(f.Parts[n-1].Length)
	}
	if end < f.Size || len(f.Parts) == 0 {
		if err := truncate(root, name, f.Size); err != nil {
			return err
		}
	}
	return chmod(root, name, f, 0o600)
}

func chmod(root *os.Root, name string, f *File, created fs.FileMode) error {
	if f.Mode == created || f.Kind == Tablespace {
		return nil // a tablespace's mode is that of its link
	}
	return root.Chmod(name, f.Mode)
}

func truncate(root *os.Root, name string, size int64) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// tablespaceMap names the tablespaces that have a place of their own, as PostgreSQL writes it. One
// that was restored in place must not be named: PostgreSQL would make a link instead of its folder.
func (r *restoring) tablespaceMap() string {
	var lines strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, "\n", "\\\n", "\r", "\\\r")
	for i := range r.manifest.Files {
		f := &r.manifest.Files[i]
		if dir, mapped := r.mapped(f); mapped {
			fmt.Fprintf(&lines, "%s %s\n", filepath.Base(f.Path), escape.Replace(dir))
		}
	}
	return lines.String()
}

// sync makes everything durable at once: a file system is faster at that than thousands of files one
// by one.
func (r *restoring) sync() error {
	for _, p := range r.places {
		if err := syncFilesystem(p.path); err != nil {
			return fmt.Errorf("make %s durable: %w", p.path, err)
		}
		if err := syncFolder(filepath.Dir(p.path)); err != nil {
			return err
		}
	}
	return nil
}

func syncFilesystem(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(folder.Fd())), folder.Close())
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// clear empties the places that were opened, after a failure.
func (r *restoring) clear() error {
	var errs []error
	for _, p := range r.places {
		children, err := os.ReadDir(p.path)
		errs = append(errs, err)
		for _, child := range children {
			errs = append(errs, p.root.RemoveAll(child.Name()))
		}
		if p.created {
			errs = append(errs, os.Remove(p.path))
		}
	}
	return errors.Join(errs...)
}

func (r *restoring) close() {
	for _, p := range r.places {
		p.root.Close()
	}
}
