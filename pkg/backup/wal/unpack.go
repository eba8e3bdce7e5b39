package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// decompress writes the content of a frame, a piece at a time. The header says what it has to be; what was written before
// an error is worth nothing.
func (u *unpacker) decompress(frame []byte, header Header, w io.Writer) error {
	content, err := u.open(frame, header.MinLZ)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	checked := &checkedWriter{to: w, left: header.RawSize}
	_, err = io.Copy(checked, struct{ io.Reader }{content}) // with as many goroutines as processors MinLZ would write it itself
	switch {
	case checked.err != nil:
		return checked.err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case checked.left != 0 || checked.crc != header.CRC32C:
		return fmt.Errorf("%w: the checksum of its content is wrong", ErrCorrupt)
	}
	return nil
}

// checkedWriter passes content on, no more than there should be.
type checkedWriter struct {
	to   io.Writer
	left int64
	crc  uint32
	err  error // of the writer that it feeds
}

var errLonger = errors.New("it is longer than its header says")

func (c *checkedWriter) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errLonger
	}
	c.crc = crc32.Update(c.crc, castagnoli, p)
	n, err := c.to.Write(p)
	c.err = err
	return n, err
}
