package backup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/pkg/backup/internal/codec"
)

// present is a data directory that may still hold what a restore wants. It is only read; what can't be read of it, or isn't
// what was backed up, is fetched.
type present struct {
	roots   map[string]*os.Root // PGDATA as "", tablespaces by their OID
	digests []codec.Digester    // by pack
	// there are files of the target itself that have the same content in the same place: what is taken of them needn't be
	// written. onlyThere: nothing is taken of others.
	there     map[*File]state
	onlyThere bool
	taken     atomic.Int64 // bytes
}

// openPresent returns nil where there is nothing to take from.
func openPresent(dir string, manifest *Manifest) *present {
	if dir == "" {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	p := &present{roots: map[string]*os.Root{"": root}, digests: digestersOf(manifest)}
	for i := range manifest.Files {
		if f := &manifest.Files[i]; f.Kind == Tablespace {
			// Through its link, which may lead anywhere.
			if root, err := os.OpenRoot(filepath.Join(dir, f.Path)); err == nil {
				p.roots[filepath.Base(f.Path)] = root
			}
		}
	}
	return p
}

// digestersOf the packs of a backup.
func digestersOf(manifest *Manifest) (digests []codec.Digester) {
	for _, pack := range manifest.Packs {
		digests = append(digests, codec.NewDigester(pack.secret(manifest.Lineage)))
	}
	return digests
}

func (p *present) close() {
	if p != nil && !p.onlyThere { // those are the target's
		closeAll(p.roots)
	}
}

// mayHold says whether a file may have something to take.
func (p *present) mayHold(f *File) bool {
	_, there := p.there[f]
	return there || !p.onlyThere
}

// locate finds the root of a path, and the name in it.
func (p *present) locate(path string) (*os.Root, string) {
	oid, name := inTablespace(path)
	if root, known := p.roots[oid]; known {
		return root, name
	}
	return p.roots[""], path
}

// taker takes frames from a present directory, for one goroutine. It keeps the last file open.
type taker struct {
	*present
	file   *os.File // nil: opened can't be read
	opened *File
	left   []partRef
}

// take hands to a sink what is still there of the partRefs, which are in the order of their frames, and returns the others.
// They are valid until the next call.
func (t *taker) take(ctx context.Context, all []partRef, content []byte, to sink) (left []partRef, buffer []byte, taken int64, err error) {
	t.left = t.left[:0]
	for len(all) > 0 {
		if ctx.Err() != nil {
			return nil, content, taken, context.Cause(ctx)
		}
		frame := all[0].part.Frame
		n := slices.IndexFunc(all, func(w partRef) bool { return frameID(w.part.Frame) != frameID(frame) })
		if n < 0 {
			n = len(all)
		}
		content = slices.Grow(content[:0], int(frame.Content))[:frame.Content]
		if !t.read(all[:n], frame, content) {
			t.left = append(t.left, all[:n]...)
			all = all[n:]
			continue
		}
		for _, w := range all[:n] {
			if _, there := t.there[w.file]; there {
				continue
			}
			if err := to.write(w, content[w.part.Skip:w.part.Skip+w.part.Length]); err != nil {
				return nil, content, taken, err
			}
		}
		taken += int64(frame.Content)
		all = all[n:]
	}
	t.taken.Add(taken)
	return t.left, content, taken, nil
}

// read reads the content of a frame from the files that want it, and says whether it is what was backed up. A frame of which
// a part isn't wanted, as that was changed later, can't be checked.
func (t *taker) read(partRefs []partRef, frame *Frame, content []byte) bool {
	if frame.Digest == 0 {
		return false
	}
	end := uint32(0)
	for _, w := range partRefs {
		if w.part.Skip != end {
			return false
		}
		end += w.part.Length
	}
	if end != frame.Content {
		return false
	}
	for _, w := range partRefs {
		if !t.open(w.file) {
			return false
		}
		if _, err := t.file.ReadAt(content[w.part.Skip:w.part.Skip+w.part.Length], w.part.FileOffset); err != nil {
			return false // it is shorter, or can't be read
		}
	}
	return codec.CRC(content) == frame.ContentCRC && t.digests[frame.Pack].Digest(content) == frame.Digest
}

// open says whether there is a file to read.
func (t *taker) open(f *File) bool {
	if t.opened == f {
		return t.file != nil
	}
	t.close()
	t.opened = f
	if !t.mayHold(f) {
		return false
	}
	t.file = t.openRegular(f)
	return t.file != nil
}

// openRegular returns nil where there is no file to read.
func (p *present) openRegular(f *File) *os.File {
	root, name := p.locate(f.Path)
	// Not blocking: a pipe would wait for somebody to write.
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil
	}
	return file
}

func (t *taker) close() {
	if t.file != nil {
		t.file.Close()
	}
	t.file, t.opened = nil, nil
}
