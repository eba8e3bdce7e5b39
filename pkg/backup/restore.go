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

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// Restore writes the backup into target, which must be empty or missing unless opts.InPlace, checks
// every byte against its checksums, adds backup_label and tablespace_map, and makes it all durable.
// Recovery settings and recovery.signal are the caller's. After an error the target is empty again,
// as far as that could be done; only Restore's success means that target is whole.
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
	had      map[*File]state   // files that had content before anything was written
	buffered atomic.Bool       // the file system wants everything through the page cache
}

// madeMode is the mode that files are made with.
const madeMode = 0o600

// place is a folder that files are restored into. Nothing outside of it is touched, whatever the
// manifest says.
type place struct {
	path    string
	root    *os.Root
	created bool // by this restore
}

// prepare opens the places, and makes the folders.
func (r *restoring) prepare(target string) error {
	if err := checkLinks(r.manifest.Files); err != nil {
		return &CorruptError{Object: layout.ManifestKey(r.manifest.Lineage, r.manifest.ID), Detail: "its list of files can't be restored", Err: err}
	}
	if err := r.openPlaces(target); err != nil {
		return err
	}
	if err := r.keep(); err != nil {
		return err
	}
	for i := range r.manifest.Files {
		f := &r.manifest.Files[i]
		_, mapped := r.mapped(f)
		_, had := r.had[f]
		if mapped || had || f.Kind != Dir && f.Kind != Tablespace {
			continue
		}
		root, name := r.locate(f.Path)
		if err := root.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	return nil
}

func (r *restoring) openPlaces(target string) error {
	if err := r.openPlace("", target); err != nil {
		return err
	}
	for i := range r.manifest.Files {
		f := &r.manifest.Files[i]
		if dir, mapped := r.mapped(f); mapped {
			if err := r.openPlace(filepath.Base(f.Path), dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep looks what is in place already, and removes all else.
func (r *restoring) keep() error {
	if !r.opts.InPlace {
		return nil
	}
	if d := r.opts.Difference; d != nil {
		now, err := r.findings(false)
		if err == nil {
			err = d.stillSo(r.manifest, now)
		}
		if err != nil {
			return err
		}
	}
	var err error
	r.had, err = r.findings(true)
	return err
}

func (r *restoring) findings(change bool) (map[*File]state, error) {
	findings := newFindings(r.manifest, r.opts.Tablespaces, change)
	for oid, p := range r.places {
		if err := findings.place(oid, p.root); err != nil {
			return nil, fmt.Errorf("make ready what is in %s: %w", p.path, err)
		}
	}
	return findings.kept, nil
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
	case len(children) > 0 && !r.opts.InPlace:
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
	present, known := r.present(), int64(0)
	defer present.close()
	if err := r.share(ctx, present); err != nil {
		return fmt.Errorf("share what is in %s: %w", r.opts.Present, err)
	}
	if present != nil {
		present.there = r.had
	}
	fetcher := &fetcher{
		store: store, header: &r.manifest.Header, present: present, newSink: func() sink { return &fileSink{restoring: r} },
	}
	if d := r.opts.Difference; d != nil {
		known = d.Same
	}
	total := contentBytes(r.manifest.Files)
	report := newReporter(r.opts.Progress, func() Progress {
		p := Progress{Done: known + fetcher.content.Load(), Total: total, Stored: fetcher.stored.Load(), Taken: known}
		if present != nil {
			p.Taken = present.taken.Load()
		}
		return p
	})
	defer report.close()
	report.enter(Copying)
	if err := fetcher.run(ctx, r.partRefs(), fetchers(r.opts.Workers, r.opts.MemoryLimit)); err != nil {
		return err
	}
	report.enter(Syncing)
	if err := r.finish(); err != nil {
		return err
	}
	return r.sync()
}

// present is where something may be taken from; nil: nowhere, or it is known already.
func (r *restoring) present() *present {
	switch {
	case !r.opts.InPlace:
		return openPresent(r.opts.Present, r.manifest)
	case r.opts.Difference != nil || len(r.had) == 0:
		return nil
	}
	roots := map[string]*os.Root{}
	for oid, p := range r.places {
		roots[oid] = p.root
	}
	return &present{roots: roots, digests: digestersOf(r.manifest), onlyThere: true}
}

// partRefs are what isn't known to be in place.
func (r *restoring) partRefs() []partRef {
	if r.opts.Difference != nil {
		return r.opts.Difference.missing
	}
	return partRefs(r.manifest.Files)
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
	if err := CreateFile(root, "backup_label", []byte(r.manifest.BackupLabel)); err != nil {
		return err
	}
	if lines := r.tablespaceMap(); lines != "" {
		return CreateFile(root, "tablespace_map", []byte(lines))
	}
	return nil
}

func (r *restoring) finishFile(f *File) error {
	root, name := r.locate(f.Path)
	_, had := r.had[f]
	if dir, mapped := r.mapped(f); mapped && !had {
		return r.places[""].root.Symlink(dir, f.Path)
	}
	switch f.Kind {
	case Symlink:
		if had {
			return nil
		}
		return root.Symlink(f.Link, name)
	case Dir, Tablespace:
		return chmod(root, name, f, r.modeNow(f, 0o700))
	}
	if contentEnd(f) < f.Size || len(f.Parts) == 0 {
		if err := truncate(root, name, f.Size); err != nil {
			return err
		}
	}
	return chmod(root, name, f, r.modeNow(f, madeMode))
}

// modeNow is that which a file was made with, unless it was there.
func (r *restoring) modeNow(f *File, made fs.FileMode) fs.FileMode {
	if before, had := r.had[f]; had {
		return before.mode
	}
	return made
}

func chmod(root *os.Root, name string, f *File, now fs.FileMode) error {
	if f.Mode == now || f.Kind == Tablespace {
		return nil // a tablespace's mode is that of its link
	}
	return root.Chmod(name, f.Mode)
}

func truncate(root *os.Root, name string, size int64) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE, madeMode)
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

// sync makes everything durable that was restored, and the names of the folders that hold it.
func (r *restoring) sync() error {
	for _, p := range r.places {
		if err := SyncTree(p.path); err != nil {
			return fmt.Errorf("make %s durable: %w", p.path, err)
		}
		if err := syncFolder(filepath.Dir(p.path)); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// clear empties the places that were opened, after a failure. What is in place serves the next restore.
func (r *restoring) clear() error {
	if r.opts.InPlace {
		return nil
	}
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
