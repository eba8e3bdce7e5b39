package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/postgres"
)

// pair finds the files that the parent has too and of which blocks can be told apart: main forks of relations. Other
// forks are changed without a trace in WAL or in the page, and other files have no pages.
func (b *base) pair(entries []*entry) []*entry {
	var paired []*entry
	for _, e := range entries {
		rel, ok := relationOf(e.Path)
		if !ok || e.Kind != Regular || rel.fork != "" || e.Size == 0 {
			continue
		}
		if e.base = b.files[e.Path]; e.base == nil {
			continue
		}
		e.changed = blockSet{blocks: blocksOf(e.Size)}
		e.changed.add(whole(e.base.Size), e.changed.blocks) // what is new, and a block that was not whole
		e.changed.add(whole(e.Size), e.changed.blocks)
		paired = append(paired, e)
	}
	return paired
}

// whole is how many whole blocks a file of that size has.
func whole(size int64) uint32 { return uint32(size / postgres.PageSize) }

// findChanges finds out which blocks of the paired files were changed since the parent's start. What was changed since
// this backup's own start is in the WAL that a restore replays.
func (w *writing) findChanges(ctx context.Context, b *base, paired []*entry) error {
	bytes := int64(0)
	for _, e := range paired {
		bytes += e.Size
	}
	changes, err := w.summaries(ctx, b.path, summaryWait(bytes))
	if err != nil {
		return err
	}
	if changes != nil {
		w.compared = BySummaries
		for _, e := range paired {
			e.summarized(changes)
		}
		return nil
	}
	w.compared = ByPages
	w.total.Add(bytes)
	forgetNewDatabases(b, paired)
	return w.copier.scanPages(ctx, paired, b.StartLSN, w.opts.Workers)
}

// summarized takes in what WAL summaries say of a file.
func (e *entry) summarized(changes postgres.BlockChanges) {
	fork, ok := locate(e.Path)
	if !ok {
		e.base = nil
		return
	}
	database := fork
	database.Relation = 0
	if changes[database] != nil {
		e.base = nil // the database was made anew from files of another
		return
	}
	if of := changes[fork]; of != nil {
		of.Each(e.first, e.first+e.changed.blocks, func(block uint32) {
			e.changed.add(block-e.first, block-e.first+1)
		})
	}
}

// OIDs of the tablespaces that have no folder in pg_tblspc.
const (
	defaultTablespace = 1663
	globalTablespace  = 1664
)

// locate is how WAL names the relation of a main fork's file.
func locate(name string) (postgres.RelationFork, bool) {
	fork, rest := postgres.RelationFork{Tablespace: defaultTablespace}, ""
	var err error
	switch top, below, _ := strings.Cut(name, "/"); top {
	case "global":
		fork.Tablespace, rest = globalTablespace, below
	case "base":
		_, err = fmt.Sscanf(below, "%d/%s", &fork.Database, &rest)
	case "pg_tblspc":
		var version string
		_, err = fmt.Sscanf(strings.ReplaceAll(below, "/", " "), "%d %s %d %s", &fork.Tablespace, &version, &fork.Database, &rest)
	default:
		return fork, false
	}
	if err == nil {
		_, err = fmt.Sscanf(rest, "%d", &fork.Relation)
	}
	return fork, err == nil
}

// clockSlack is more than the clocks of two machines are apart.
const clockSlack = time.Hour

// forgetNewDatabases lets no file be built on whose database may have been made since the parent's start, by a copy of
// another one's files: their pages are old, and not those that the parent has under the same names.
func forgetNewDatabases(b *base, paired []*entry) {
	fresh := map[string]bool{}
	for _, e := range paired {
		folder := path.Dir(e.Path)
		isFresh, known := fresh[folder]
		if !known {
			isFresh = folder != "global" && b.madeSince(path.Join(folder, "PG_VERSION"), path.Join(path.Dir(e.at), "PG_VERSION"))
			fresh[folder] = isFresh
		}
		if isFresh {
			e.base = nil
		}
	}
}

// madeSince says whether a file that is written once, when a database is made, may have been written since the parent's
// start. On the instance that the parent was read from it has kept its time; on another one it is older than the parent,
// unless that was cloned since.
func (b *base) madeSince(name, at string) bool {
	info, err := os.Stat(at)
	if err != nil {
		return true
	}
	if was := b.files[name]; was != nil && was.MTime.Equal(info.ModTime()) {
		return false
	}
	return info.ModTime().After(b.StartTime.Add(-clockSlack))
}

const (
	scanSpan = 16 << 20 // of one file that one worker takes at a time
	scanRead = 1 << 20
)

// scanPages reads the paired files and adds every block to their changed ones whose page says that it was changed since
// then, or doesn't say. On the way it checks the pages.
func (c *copier) scanPages(ctx context.Context, paired []*entry, since postgres.LSN, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan span)
	group.Go(func() error {
		defer close(queue)
		for _, e := range paired {
			end := min(e.Size, e.baseSize()) / postgres.PageSize * postgres.PageSize
			for at := int64(0); at < end; at += scanSpan {
				select {
				case queue <- span{file: e, offset: at, length: min(scanSpan, end-at)}:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
		return nil
	})
	for range workers {
		group.Go(func() error {
			buffer := make([]byte, scanRead)
			for s := range queue {
				if err := c.scanSpan(ctx, s, since, buffer); err != nil {
					return fmt.Errorf("read %s: %w", s.file.at, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (e *entry) baseSize() int64 {
	if e.base == nil {
		return 0
	}
	return e.base.Size
}

func (c *copier) scanSpan(ctx context.Context, s span, since postgres.LSN, buffer []byte) error {
	file, err := os.Open(s.file.at)
	if errors.Is(err, fs.ErrNotExist) {
		c.setVanished(s.file)
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for at := s.offset; at < s.offset+s.length; at += scanRead {
		b := buffer[:min(scanRead, s.offset+s.length-at)]
		if err := c.throttle.take(ctx, int64(len(b))); err != nil {
			return err
		}
		n, err := file.ReadAt(b, at)
		if err != nil && err != io.EOF {
			return err
		}
		if c.checker != nil {
			if err := c.checker.check(ctx, s.file, file, b[:n], at); err != nil {
				return err
			}
		}
		c.addChanged(s.file, b[:n], at, since)
		c.addBlocks(s.file, whole(at+int64(n)), whole(at+int64(len(b)))) // the file has shrunk
		c.done.Add(int64(len(b)))
	}
	return nil
}

// addChanged looks at the LSN with which each page begins. A page without one is new, or of a kind that has none.
func (c *copier) addChanged(e *entry, content []byte, offset int64, since postgres.LSN) {
	for at := 0; at+postgres.PageSize <= len(content); at += postgres.PageSize {
		lsn := postgres.LSN(binary.LittleEndian.Uint32(content[at:]))<<32 | postgres.LSN(binary.LittleEndian.Uint32(content[at+4:]))
		if lsn == 0 || lsn >= since {
			block := whole(offset + int64(at))
			c.addBlocks(e, block, block+1)
		}
	}
}

func (c *copier) addBlocks(e *entry, from, to uint32) {
	if from >= to {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.changed.add(from, to)
}
