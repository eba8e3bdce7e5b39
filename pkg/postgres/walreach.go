package postgres

import (
	"encoding/binary"
	"errors"
	"io"
)

// WALReaches says whether the file of a segment has all that a server had written of it before lsn. A server that has crashed may have
// written the record at lsn only in part; where its beginning is there, nothing before it is missing. A segment that isn't what its name
// says, or ends before lsn, doesn't reach it.
func WALReaches(file io.ReaderAt, segment Segment, lsn LSN) (bool, error) {
	scan, err := ReadWAL(io.NewSectionReader(file, 0, int64(segment.SegSize)), WALTail{})
	switch {
	case errors.Is(err, ErrSyntax): // zeroes, or nothing
		return false, nil
	case err != nil:
		return false, err
	case scan.Segment.Number != segment.Number || scan.Segment.SegSize != segment.SegSize: // it was renamed for later use
		return false, nil
	case scan.Complete:
		return true, nil
	}
	begin, total, err := unread(file, segment, scan)
	if err != nil || begin >= lsn {
		return err == nil, err
	}
	return total > 0 && endOfRecord(begin, total) > lsn, nil
}

// unread is where the record begins, or continues, at which a scan has ended, and how long it is from there; 0: there is none.
func unread(file io.ReaderAt, segment Segment, scan WALScan) (begin LSN, total uint32, err error) {
	header := make([]byte, walShortHeaderSize)
	if _, err := file.ReadAt(header, 0); err != nil {
		return 0, 0, err
	}
	switch {
	case scan.Damaged > 0:
		begin = scan.Damaged
	case scan.End > 0:
		begin = (scan.End + 7) &^ 7
	default: // of the first record
		begin = segment.Start() + walLongHeaderSize
		if binary.LittleEndian.Uint16(header[2:])&walFlagContinued != 0 {
			return begin, binary.LittleEndian.Uint32(header[16:]), nil
		}
	}
	if begin%walPageSize == 0 {
		begin += walShortHeaderSize
	}
	length := make([]byte, 4)
	if _, err := file.ReadAt(length, int64(begin-segment.Start())); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	if total = binary.LittleEndian.Uint32(length); total < recordHeader {
		total = 0
	}
	return begin, total, nil
}

// endOfRecord is where a record ends that begins at a position, with the headers of the pages that it continues to.
func endOfRecord(begin LSN, length uint32) LSN {
	at, left := begin, LSN(length)
	for {
		here := walPageSize - at%walPageSize
		if left <= here {
			return at + left
		}
		at, left = at+here+walShortHeaderSize, left-here
	}
}
