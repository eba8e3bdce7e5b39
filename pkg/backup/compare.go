package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"howdah.dev/howdah/pkg/objstore"
)

// Difference is what a data directory lacks of a backup.
type Difference struct {
	Bytes int64 // of the content that is missing
	Same  int64 // bytes of the content that is there

	manifest *Manifest
	missing  []partRef
	kept     map[*File]state
}

// Compare finds out what a restore in place would have to change in target, where nobody may write meanwhile, and reads all
// that is missing there from the store: after it, nothing that the restore needs is known to be damaged. Nothing is changed.
// RestoreOptions.Difference takes what it returns. Of the options it heeds Tablespaces, Workers, MemoryLimit and Progress.
//
// Errors: *CorruptError (ErrCorrupt), those of objstore.
func Compare(ctx context.Context, store objstore.Store, manifest *Manifest, target string, opts RestoreOptions) (*Difference, error) {
	roots := rootsIn(target, opts.Tablespaces)
	defer closeAll(roots)
	findings := newFindings(manifest, opts.Tablespaces, false)
	for oid, root := range roots {
		if err := findings.place(oid, root); err != nil {
			return nil, err
		}
	}
	present := &present{roots: roots, digests: digestersOf(manifest), there: findings.kept, onlyThere: true}
	c := &comparing{fetcher: &fetcher{store: store, header: &manifest.Header, present: present}}
	total := contentBytes(manifest.Files)
	report := newReporter(opts.Progress, func() Progress {
		return Progress{Done: c.fetcher.content.Load(), Total: total, Stored: c.fetcher.stored.Load(), Taken: present.taken.Load()}
	})
	defer report.close()
	report.enter(Comparing)
	if _, err := c.fetcher.feed(ctx, partRefs(manifest.Files), fetchers(opts.Workers, opts.MemoryLimit), 0, c.work); err != nil {
		return nil, err
	}
	slices.SortFunc(c.missing, inPacks)
	same := present.taken.Load()
	return &Difference{Bytes: total - same, Same: same, manifest: manifest, missing: c.missing, kept: findings.kept}, nil
}

// rootsIn opens PGDATA and the tablespaces that have a place of their own, as far as they are there.
func rootsIn(target string, tablespaces map[string]string) map[string]*os.Root {
	roots := map[string]*os.Root{}
	open := func(oid, dir string) {
		if root, err := os.OpenRoot(dir); err == nil {
			roots[oid] = root
		}
	}
	open("", target)
	for oid, dir := range tablespaces {
		open(oid, dir)
	}
	return roots
}

func closeAll(roots map[string]*os.Root) {
	for _, root := range roots {
		root.Close()
	}
}

// comparing is one run of Compare.
type comparing struct {
	fetcher *fetcher

	mu      sync.Mutex
	missing []partRef
}

func (c *comparing) work(ctx context.Context, queue <-chan batch) error {
	taker := taker{present: c.fetcher.present}
	defer taker.close()
	stored, content := make([]byte, 0, maxRange+maxGap), make([]byte, 0, minFrame)
	for b := range queue {
		left, buffer, taken, err := taker.take(ctx, b.partRefs, content, nowhere{})
		if err != nil {
			return err
		}
		content = buffer
		c.fetcher.content.Add(taken)
		c.lacks(left)
		for rest := range batches(left) {
			stored = slices.Grow(stored[:0], int(rest.to-rest.from))[:rest.to-rest.from]
			if content, err = c.fetcher.check(ctx, rest, stored, content); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *comparing) lacks(partRefs []partRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = append(c.missing, partRefs...)
}

// check reads a batch, and does it once more where something is wrong.
func (f *fetcher) check(ctx context.Context, b batch, stored, content []byte) ([]byte, error) {
	return twice(ctx, func() ([]byte, error) {
		if err := f.read(ctx, b, stored); err != nil {
			return content, err
		}
		return f.unpack(ctx, b, stored, content, nowhere{})
	})
}

// stillSo says whether what was found in a directory is there as it was.
func (d *Difference) stillSo(manifest *Manifest, kept map[*File]state) error {
	if d.manifest != manifest {
		return errors.New("the target was compared with another manifest")
	}
	for file, before := range d.kept {
		now, there := kept[file]
		if file.Kind == Regular && (!there || now.inode != before.inode || now.size != before.size || now.changed != before.changed) {
			return fmt.Errorf("%w: %s has changed since it was compared", ErrTarget, file.Path)
		}
	}
	return nil
}
