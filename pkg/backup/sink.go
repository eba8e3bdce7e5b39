package backup

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// directLeast is what is worth writing past the page cache, which nobody reads from soon, and which takes the memory of a
	// small Job. A run that is smaller is better joined with its neighbours.
	directLeast = 128 << 10
	// directUnit is the largest page or block of a file system: a run that goes through the page cache must share none with
	// what is written past it, for the kernel may write the whole of it back as it was before.
	directUnit = 64 << 10
	// directAlign is what devices ask of addresses.
	directAlign = 4 << 10
)

// fileSink writes parts into files, and keeps the last one open, because neighbours in a pack mostly
// belong to one file.
type fileSink struct {
	*restoring
	opened *File
	// kept: the page cache may hold more of the file in one piece than a run, with what was there before.
	kept   bool
	file   *os.File
	direct *os.File // the same one, past the page cache
	copied []byte   // of content that is not aligned
}

func (s *fileSink) write(w partRef, content []byte) error {
	if s.opened != w.file {
		if err := s.close(); err != nil {
			return err
		}
		s.opened = w.file
		_, s.kept = s.had[w.file]
	}
	if written, err := s.writeDirect(content, w.part.FileOffset); written || err != nil {
		return err
	}
	if err := s.open(&s.file, 0); err != nil {
		return err
	}
	_, err := s.file.WriteAt(content, w.part.FileOffset)
	return err
}

// writeDirect writes past the page cache, and says whether it could.
func (s *fileSink) writeDirect(content []byte, offset int64) (bool, error) {
	if s.buffered.Load() || s.kept || len(content) < directLeast || len(content)%directUnit != 0 || offset%directUnit != 0 {
		return false, nil
	}
	if !aligned(content) {
		s.copied = append(s.copied[:0], content...)
		content = s.copied
	}
	err := s.open(&s.direct, directWrites)
	if err == nil {
		_, err = s.direct.WriteAt(content, offset)
	}
	if errors.Is(err, unix.EINVAL) { // this file system can't, or asks for more: nor will it the next time
		s.buffered.Store(true)
		return false, nil
	}
	return err == nil, err
}

// aligned is what allocated memory of that size happens to be; where it isn't, the kernel says so.
func aligned(content []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(content)))%directAlign == 0
}

// open opens the file of the present part, unless it is open.
func (s *fileSink) open(file **os.File, flags int) (err error) {
	if *file == nil {
		root, name := s.locate(s.opened.Path)
		*file, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, madeMode)
	}
	return err
}

func (s *fileSink) close() (err error) {
	for _, file := range []*os.File{s.file, s.direct} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	s.file, s.direct, s.opened = nil, nil, nil
	return err
}
