package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The layout of a page of WAL (XLogPageHeaderData).
const (
	walPageSize        = 8192
	walShortHeaderSize = 24
	walLongHeaderSize  = 40

	walFlagContinued   = 0x0001
	walFlagLong        = 0x0002
	walFlagOverwritten = 0x0008
)

// walReader reads the records of one segment, which run on over the headers of pages.
type walReader struct {
	source io.Reader
	page   [walPageSize]byte // the one with pos in it, or right before it
	read   int               // pages so far
	err    error             // of the source, but for its end

	size   int // of a whole segment, bytes
	start  LSN
	magic  uint16
	pos    int
	buffer []byte // of a record that lies on several pages
}

// load reads pages up to the one that begins at pos; false: there is none.
func (r *walReader) load() bool {
	for r.err == nil && r.read*walPageSize <= r.pos {
		_, err := io.ReadFull(r.source, r.page[:])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false
		}
		if err != nil {
			r.err = fmt.Errorf("read WAL: %w", err)
		}
		r.read++
	}
	return r.err == nil
}

type readState int

const (
	readWhole       readState = iota
	readCut                   // the segment ended within the record
	readEnd                   // the segment ended after a record
	readNothing               // the server wrote no further
	readOverwritten           // the server crashed within the record, and continued on a later page
)

func (r *walReader) lsn() LSN { return r.start + LSN(r.pos) }

// openPage checks the header of the page at pos and moves past it. remaining is the length of what a
// record that began earlier still has on this page and later ones.
func (r *walReader) openPage() (remaining int, ok bool) {
	if !r.load() {
		return 0, false
	}
	header := r.page[:]
	info := binary.LittleEndian.Uint16(header[2:])
	if binary.LittleEndian.Uint16(header) != r.magic || LSN(binary.LittleEndian.Uint64(header[8:])) != r.lsn() {
		return 0, false // never written, or left from the segment's former life
	}
	if info&walFlagContinued != 0 {
		remaining = int(binary.LittleEndian.Uint32(header[16:]))
	}
	r.pos += walShortHeaderSize
	if info&walFlagLong != 0 {
		r.pos += walLongHeaderSize - walShortHeaderSize
	}
	return remaining, true
}

// next reads one record. With readCut, record is the part that is here. The record is valid until the
// next call.
func (r *walReader) next() (lsn LSN, record []byte, state readState) {
	for {
		r.pos = (r.pos + 7) &^ 7
		if r.pos == r.size {
			return r.lsn(), nil, readEnd
		}
		if r.pos%walPageSize == 0 {
			if remaining, ok := r.openPage(); !ok || remaining != 0 {
				return 0, nil, readNothing
			}
		}
		lsn = r.lsn()
		total := int(binary.LittleEndian.Uint32(r.page[r.pos%walPageSize:]))
		if total < recordHeader {
			return 0, nil, readNothing
		}
		if record, state = r.take(total); state != readOverwritten {
			return lsn, record, state
		}
	}
}

// take reads n bytes of a record from pos on, over as many pages as they need.
func (r *walReader) take(n int) ([]byte, readState) {
	if rest := r.page[r.pos%walPageSize:]; n <= len(rest) {
		r.pos += n
		return rest[:n], readWhole
	}
	r.buffer = r.buffer[:0]
	for {
		rest := r.page[r.pos%walPageSize:]
		here := min(n-len(r.buffer), len(rest))
		r.buffer = append(r.buffer, rest[:here]...)
		r.pos += here
		if len(r.buffer) == n {
			return r.buffer, readWhole
		}
		if r.pos == r.size {
			return r.buffer, readCut
		}
		if state := r.continuePage(n - len(r.buffer)); state != readWhole {
			return nil, state
		}
	}
}

// continuePage opens the page on which a record continues for that many more bytes.
func (r *walReader) continuePage(remaining int) readState {
	found, ok := r.openPage()
	switch {
	case !ok:
		return readNothing
	case found == remaining:
		return readWhole
	case binary.LittleEndian.Uint16(r.page[2:])&walFlagOverwritten != 0:
		return readOverwritten
	}
	return readNothing
}
