package backup

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// findings are the files of a data directory that a backup may have as well: those of the right kind in the right place. Links
// are never followed, and a file that has another name, too, is none of ours: who writes into it writes into the other.
type findings struct {
	expected    map[string]*File
	tablespaces map[string]string // RestoreOptions.Tablespaces
	// change makes ready for a restore what is found: everything else is removed, what is longer is cut, what no part of the
	// backup holds is made zero, and all may be read and written. Otherwise nothing is changed, and what can't be read isn't found.
	change bool
	kept   map[*File]state
}

// state is what is known of a file that was kept.
type state struct {
	inode   uint64
	size    int64
	changed int64       // when its content did, in nanoseconds
	mode    fs.FileMode // permission bits
}

func newFindings(manifest *Manifest, tablespaces map[string]string, change bool) *findings {
	s := &findings{expected: make(map[string]*File, len(manifest.Files)), tablespaces: tablespaces, change: change, kept: map[*File]state{}}
	for i := range manifest.Files {
		s.expected[manifest.Files[i].Path] = &manifest.Files[i]
	}
	return s
}

// place looks through PGDATA, or a tablespace that has a place of its own.
func (s *findings) place(oid string, root *os.Root) error {
	if oid == "" {
		return s.folder(root, ".", "")
	}
	return s.folder(root, ".", "pg_tblspc/"+oid)
}

// folder looks through what is in a folder: name in its root, full in PGDATA.
func (s *findings) folder(root *os.Root, name, full string) error {
	children, err := namesIn(root, name)
	if err != nil {
		return s.unless(err)
	}
	for _, child := range children {
		if err := s.child(root, path.Join(name, child), path.Join(full, child)); err != nil {
			return err
		}
	}
	return nil
}

// unless lets an error pass where nothing is to be changed.
func (s *findings) unless(err error) error {
	if s.change {
		return err
	}
	return nil
}

func namesIn(root *os.Root, name string) ([]string, error) {
	folder, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	names, err := folder.Readdirnames(-1)
	return names, errors.Join(err, folder.Close())
}

func (s *findings) child(root *os.Root, name, full string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return s.unless(err)
	}
	file := s.expected[full]
	if file == nil || !s.fits(file, root, name, info) {
		if s.change {
			return root.RemoveAll(name)
		}
		return nil
	}
	found := stateOf(info)
	if s.change {
		if err := makeReady(file, root, name, &found); err != nil {
			return err
		}
	}
	s.kept[file] = found
	if info.IsDir() {
		return s.folder(root, name, full)
	}
	return nil
}

// fits says whether what is there is of a file's kind.
func (s *findings) fits(f *File, root *os.Root, name string, info fs.FileInfo) bool {
	switch f.Kind {
	case Regular:
		stat, ok := info.Sys().(*syscall.Stat_t)
		return ok && info.Mode().IsRegular() && stat.Nlink == 1
	case Dir:
		return info.IsDir()
	case Tablespace:
		if dir, mapped := s.tablespaces[path.Base(f.Path)]; mapped {
			return leadsTo(root, name, info, dir)
		}
		return info.IsDir()
	case Symlink:
		return leadsTo(root, name, info, f.Link)
	}
	return false
}

func leadsTo(root *os.Root, name string, info fs.FileInfo, wanted string) bool {
	if info.Mode().Type() != fs.ModeSymlink {
		return false
	}
	target, err := root.Readlink(name)
	return err == nil && target == wanted
}

func stateOf(info fs.FileInfo) state {
	found := state{size: info.Size(), changed: info.ModTime().UnixNano(), mode: info.Mode().Perm()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		found.inode = stat.Ino
	}
	return found
}

// makeReady makes of a file or folder one that a restore can continue with.
func makeReady(f *File, root *os.Root, name string, found *state) error {
	least := fs.FileMode(0o600)
	switch f.Kind {
	case Symlink:
		return nil
	case Dir, Tablespace:
		if found.mode&0o700 == 0o700 || f.Kind == Tablespace {
			return nil
		}
		least = 0o700
	}
	if found.mode&least != least {
		if err := root.Chmod(name, found.mode|least); err != nil {
			return err
		}
		found.mode |= least
	}
	if f.Kind != Regular {
		return nil
	}
	return blank(f, root, name, found.size)
}

// blank leaves of a file what the backup's parts may be in, and nothing between them and after them.
func blank(f *File, root *os.Root, name string, size int64) error {
	end, holes := contentEnd(f), holesOf(f, size)
	if size <= end && len(holes) == 0 {
		return nil
	}
	file, err := root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if size > end {
		err = file.Truncate(end)
	}
	for _, hole := range holes {
		if err == nil {
			err = makeZero(file, hole.from, hole.to)
		}
	}
	return errors.Join(err, file.Close())
}

// contentEnd is where the last part of a file ends. What lies beyond it is zero.
func contentEnd(f *File) int64 {
	if n := len(f.Parts); n > 0 {
		return f.Parts[n-1].FileOffset + int64(f.Parts[n-1].Length)
	}
	return 0
}

type hole struct{ from, to int64 }

// holesOf are what the parts of a file leave out before its last one, as far as a file of that size reaches.
func holesOf(f *File, size int64) (holes []hole) {
	at := int64(0)
	for _, part := range f.Parts {
		if to := min(size, part.FileOffset); to > at {
			holes = append(holes, hole{at, to})
		}
		at = max(at, part.FileOffset+int64(part.Length))
	}
	return holes
}

// zeroes are written where a file system can't make holes.
var zeroes [128 << 10]byte

func makeZero(file *os.File, from, to int64) error {
	err := punchHole(file, from, to)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	for at := from; at < to; at += int64(len(zeroes)) {
		if _, err := file.WriteAt(zeroes[:min(int64(len(zeroes)), to-at)], at); err != nil {
			return err
		}
	}
	return nil
}
