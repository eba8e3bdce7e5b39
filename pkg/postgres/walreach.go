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
	case scan.Complete || scan.End == 0: // a record that began in an earlier segment goes on here; nothing more can be told
		return true, nil
	}
	begin := scan.End
	if scan.Damaged > 0 {
		begin = scan.Damaged
	}
	begin = (begin + 7) &^ 7
	if begin%walPageSize == 0 {
		begin += walShortHeaderSize
	}
	if begin >= lsn {
		return true, nil
	}
	length := make([]byte, 4)
	if _, err := file.ReadAt(length, int64(begin-segment.Start())); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	total := binary.LittleEndian.Uint32(length)
	return total >= recordHeader && endOfRecord(begin, total) > lsn, nil
}

// endOfRecord is where a record ends that begins at a position, with the headers of the pages that it goes on to.
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
