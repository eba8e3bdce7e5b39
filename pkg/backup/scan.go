package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// controlFile is read last: on a standby it says how far WAL must be replayed for what was read
// before it.
const controlFile = "global/pg_control"

// entry is a file that is to be backed up.
type entry struct {
	File
	at       string // where it is, through a tablespace's link
	pages    bool   // made of pages
	first    uint32 // block of its first page
	listed   int64  // size when it was listed
	vanished bool
	reach    int64 // how long the file is at least, with zeroes that are left out of its parts

	// Of an incremental backup: the file as the parent has it, nil if all is read; the blocks that are read; what is
	// referred to instead.
	base    *File
	changed blockSet
	kept    []Part
}

// scanner walks PGDATA.
type scanner struct {
	entries []*entry
	ctx     context.Context
}

// scan lists what is to be backed up, in the order of the paths, folders before what is in them.
func scan(ctx context.Context, dataDir string) ([]*entry, error) {
	if _, err := os.Stat(filepath.Join(dataDir, "PG_VERSION")); err != nil {
		return nil, fmt.Errorf("%w: %s is not a data directory of PostgreSQL: %w", ErrTarget, dataDir, err)
	}
	s := &scanner{ctx: ctx}
	if err := s.folder("", dataDir); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.entries, func(a, b *entry) int { return strings.Compare(a.Path, b.Path) })
	return s.entries, nil
}

// folder takes in what is in a folder: name in PGDATA, at on disk. One that vanished is empty.
func (s *scanner) folder(name, at string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	children, err := os.ReadDir(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := make([]string, 0, len(children))
	for _, child := range children {
		names = append(names, child.Name())
	}
	unloggedNodes := map[string]bool{}
	if databasePath.MatchString(name) {
		unloggedNodes = unlogged(names)
	}
	for _, child := range names {
		full := path.Join(name, child)
		if rel, ok := relationOf(full); ok && unloggedNodes[rel.node] && rel.fork != "_init" {
			continue
		}
		if err := s.child(full, filepath.Join(at, child)); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) child(name, at string) error {
	if excluded(name) {
		return nil
	}
	info, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case emptied[name]:
		return s.emptyFolder(name, at, info)
	case info.IsDir():
		s.add(name, at, Dir, info)
		return s.folder(name, at)
	case info.Mode().IsRegular():
		s.add(name, at, Regular, info)
	case info.Mode().Type() == fs.ModeSymlink:
		return s.link(name, at, info)
	}
	return nil // sockets and the like
}

func (s *scanner) add(name, at string, kind Kind, info fs.FileInfo) *entry {
	e := &entry{at: at, File: File{Path: name, Kind: kind, Mode: info.Mode().Perm(), MTime: info.ModTime().UTC()}}
	if kind == Regular {
		e.Size, e.listed = info.Size(), info.Size()
		if rel, ok := relationOf(name); ok {
			e.pages, e.first = true, rel.segment*pagesPerSegment
		}
	}
	s.entries = append(s.entries, e)
	return e
}

// emptyFolder keeps the folder itself, also where it is a link to one, such as pg_wal on a volume of
// its own.
func (s *scanner) emptyFolder(name, at string, info fs.FileInfo) error {
	if info.Mode().Type() == fs.ModeSymlink {
		followed, err := os.Stat(at)
		if err != nil {
			return err
		}
		info = followed
	}
	s.add(name, at, Dir, info)
	if name != "pg_wal" {
		return nil
	}
	for _, folder := range walFolders {
		below := filepath.Join(at, path.Base(folder))
		if info, err := os.Stat(below); err == nil && info.IsDir() {
			s.add(folder, below, Dir, info)
		}
	}
	return nil
}

// link follows a tablespace's link; any other one is kept as a link, if it stays in the data directory. One that leads out is
// left out, as pg_basebackup does: nobody knows what would be there after a restore, and none makes it.
func (s *scanner) link(name, at string, info fs.FileInfo) error {
	target, err := os.Readlink(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !tablespacePath.MatchString(name) {
		if linkStays(name, target) {
			s.add(name, at, Symlink, info).Link = target
		}
		return nil
	}
	s.add(name, at, Tablespace, info).Link = target
	return s.folder(name, at+string(filepath.Separator))
}

// finished is the file as it was copied: as long as what was read of it, or kept.
func (e *entry) finished() File {
	slices.SortFunc(e.Parts, func(a, b Part) int { return cmp.Compare(a.FileOffset, b.FileOffset) })
	e.Size = e.reach
	if n := len(e.Parts); n > 0 {
		e.Size = max(e.Size, e.Parts[n-1].FileOffset+int64(e.Parts[n-1].Length))
	}
	return e.File
}
