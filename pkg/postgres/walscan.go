package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// Commit is one transaction's commit record.
type Commit struct {
	LSN  LSN // where the record begins
	Time time.Time
}

// RestorePoint is a name that pg_create_restore_point put into the WAL.
type RestorePoint struct {
	Name string
	LSN  LSN // where the record begins
	Time time.Time
}

// WALScan is what ScanWAL found in one segment.
type WALScan struct {
	SystemIdentifier uint64
	Major            int // of the server that wrote it
	Segment          Segment
	Commits          int
	First, Last      Commit // by position; their times need not be in order
	// LatestTime is the latest time of a commit or an abort, zero without one. Recovery to an earlier
	// time stops within what was scanned, as it needs a transaction that ended later.
	LatestTime    time.Time
	RestorePoints []RestorePoint
	End           LSN  // beyond the last whole record, zero without one
	Complete      bool // the segment was written to its end, or a switch of segments ended it
	Switched      int  // bytes up to the switch that ended it, after which nothing counts; 0: none did
	// Damaged is where the first record begins whose checksum is wrong, zero without one. Behind the end of what the server
	// has written so far such bytes are nothing unusual; in a segment that is complete they are damage.
	Damaged LSN
	Tail    WALTail // the record that continues in the next segment
}

// WALTail is the first part of a record that continues in the next segment.
type WALTail struct {
	LSN  LSN
	Data []byte
}

// walMagic tells the major from the first two bytes of a page of WAL (XLOG_PAGE_MAGIC).
var walMagic = map[uint16]int{0xD10D: 14, 0xD110: 15, 0xD113: 16, 0xD116: 17, 0xD118: 18}

// maxTail bounds what a tail carries, in bytes. Records of commits are small; those that are larger
// than this belong to transactions with very many subtransactions or dropped relations.
const maxTail = 1 << 20

// ScanWAL reads the records of one segment, or of the written part of one. A record that began in the
// segment before counts here, if the tail of that scan is given; pass the zero WALTail where it is not
// known, and such a record is skipped. Reading ends without an error where the server stopped writing;
// an error says that this is no WAL at all.
func ScanWAL(segment []byte, before WALTail) (WALScan, error) {
	scan, err := ReadWAL(bytes.NewReader(segment), before)
	if err == nil && uint64(len(segment)) > scan.Segment.SegSize {
		return WALScan{}, fmt.Errorf("%w WAL segment: %d bytes where segments have %d", ErrSyntax, len(segment), scan.Segment.SegSize)
	}
	return scan, err
}

// ReadWAL is ScanWAL of what a reader gives, of which it holds little at a time. It reads whole pages, and none after the
// one where it ends. An error of the reader is returned.
func ReadWAL(segment io.Reader, before WALTail) (WALScan, error) {
	r, scan, err := openSegment(segment)
	if err != nil {
		return WALScan{}, err
	}
	r.scan(&scan, before)
	return scan, r.err
}

func (r *walReader) scan(scan *WALScan, before WALTail) {
	if !r.finish(scan, before) {
		return
	}
	for {
		lsn, record, state := r.next()
		switch state {
		case readWhole:
			if !intact(record) {
				scan.Damaged = lsn
				return
			}
			scan.End = r.lsn()
			if scan.add(lsn, record) == isSwitch {
				scan.Complete, scan.Switched = true, r.pos
				return
			}
		case readCut:
			scan.carry(lsn, nil, record)
			return
		case readNothing:
			return
		case readEnd:
			scan.Complete = true
			return
		}
	}
}

// openSegment reads the long header that every segment begins with.
func openSegment(source io.Reader) (*walReader, WALScan, error) {
	r := &walReader{source: source}
	if !r.load() {
		if r.err == nil {
			r.err = fmt.Errorf("%w WAL segment: it is less than a page", ErrSyntax)
		}
		return nil, WALScan{}, r.err
	}
	segment := r.page[:]
	magic, info := binary.LittleEndian.Uint16(segment), binary.LittleEndian.Uint16(segment[2:])
	major, known := walMagic[magic]
	if !known || info&walFlagLong == 0 {
		return nil, WALScan{}, fmt.Errorf("%w WAL segment: it begins with %04X/%04X, which no PostgreSQL from %d to %d writes",
			ErrSyntax, magic, info, OldestMajor, NewestMajor)
	}
	start := binary.LittleEndian.Uint64(segment[8:])
	segSize := uint64(binary.LittleEndian.Uint32(segment[32:]))
	page := binary.LittleEndian.Uint32(segment[36:])
	if page != walPageSize || !ValidSegSize(segSize) || start%segSize != 0 {
		return nil, WALScan{}, fmt.Errorf("%w WAL segment: pages of %d bytes, segments of %d, at %v", ErrSyntax, page, segSize, LSN(start))
	}
	timeline := binary.LittleEndian.Uint32(segment[4:])
	scan := WALScan{
		SystemIdentifier: binary.LittleEndian.Uint64(segment[24:]), Major: major,
		Segment: SegmentOf(timeline, LSN(start), segSize),
	}
	r.size, r.start, r.magic = int(segSize), LSN(start), magic
	return r, scan, nil
}

// finish reads the rest of the record that began in an earlier segment; false: it does not end here.
func (r *walReader) finish(scan *WALScan, before WALTail) bool {
	remaining, ok := r.openPage()
	if !ok {
		return false
	}
	if remaining == 0 {
		return true
	}
	rest, state := r.take(remaining)
	if state == readOverwritten {
		return true
	}
	if state != readWhole {
		if state == readCut {
			scan.carry(before.LSN, before.Data, rest)
		}
		return false
	}
	scan.End = r.lsn()
	record := append(bytes.Clone(before.Data), rest...)
	switch {
	case len(before.Data) < 4 || binary.LittleEndian.Uint32(record) != uint32(len(record)): // its beginning is not known
	case intact(record):
		scan.add(before.LSN, record)
	default:
		scan.Damaged = before.LSN
	}
	return true
}

// carry keeps what the next segment's scan needs of a record that continues there.
func (s *WALScan) carry(lsn LSN, before, part []byte) {
	s.Complete = true
	if lsn != 0 && len(before)+len(part) <= maxTail {
		s.Tail = WALTail{LSN: lsn, Data: append(bytes.Clone(before), part...)}
	}
}

// The layout of a record (XLogRecord), and what of it is looked at.
const (
	recordHeader = 24
	rmgrXLOG     = 0
	rmgrXact     = 1
	infoMask     = 0xF0
	xactMask     = 0x70

	xlogSwitch       = 0x40
	xlogRestorePoint = 0x70

	xactCommit         = 0x00
	xactAbort          = 0x20
	xactCommitPrepared = 0x30
	xactAbortPrepared  = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// intact checks the length and the CRC-32C of a whole record: of its data first, then of its header.
func intact(record []byte) bool {
	if len(record) < recordHeader {
		return false
	}
	crc := crc32.Checksum(record[recordHeader:], castagnoli)
	crc = crc32.Update(crc, castagnoli, record[:20])
	return crc == binary.LittleEndian.Uint32(record[20:])
}

type recordKind int

const (
	isOther recordKind = iota
	isSwitch
)

// add takes one intact record into the scan.
func (s *WALScan) add(lsn LSN, record []byte) recordKind {
	info, rmgr := record[16], record[17]
	switch {
	case rmgr == rmgrXLOG && info&infoMask == xlogSwitch:
		s.End = s.Segment.End()
		return isSwitch
	case rmgr == rmgrXLOG && info&infoMask == xlogRestorePoint:
		if data := mainData(record); len(data) >= 72 {
			name, _, _ := bytes.Cut(data[8:72], []byte{0})
			s.RestorePoints = append(s.RestorePoints, RestorePoint{Name: string(name), LSN: lsn, Time: pgTime(data)})
		}
	case rmgr == rmgrXact:
		s.addXact(lsn, info&xactMask, mainData(record))
	}
	return isOther
}

func (s *WALScan) addXact(lsn LSN, operation byte, data []byte) {
	if len(data) < 8 {
		return
	}
	at := pgTime(data)
	switch operation {
	case xactCommit, xactCommitPrepared:
		s.Commits++
		s.Last = Commit{LSN: lsn, Time: at}
		if s.Commits == 1 {
			s.First = s.Last
		}
	case xactAbort, xactAbortPrepared:
	default:
		return
	}
	if at.After(s.LatestTime) {
		s.LatestTime = at
	}
}

// mainData finds the main data of a record that refers to no pages, as those of transactions and
// restore points do; nil for any other.
func mainData(record []byte) []byte {
	for rest := record[recordHeader:]; len(rest) > 0; {
		var skip int
		switch rest[0] {
		case 255: // main data, length of one byte
			return cut(rest, 2, func(b []byte) uint32 { return uint32(b[1]) })
		case 254: // main data, length of four bytes
			return cut(rest, 5, func(b []byte) uint32 { return binary.LittleEndian.Uint32(b[1:]) })
		case 253: // replication origin
			skip = 3
		case 252: // top-level transaction
			skip = 5
		default:
			return nil
		}
		if len(rest) < skip {
			return nil
		}
		rest = rest[skip:]
	}
	return nil
}

// cut returns the data after a header of that many bytes; nil if it is not as long as the header says.
func cut(b []byte, header int, length func([]byte) uint32) []byte {
	if len(b) < header || uint64(len(b)-header) < uint64(length(b)) {
		return nil
	}
	return b[header:][:length(b)]
}

// pgEpoch is the origin of PostgreSQL's timestamps, which count microseconds.
var pgEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func pgTime(data []byte) time.Time {
	micros := int64(binary.LittleEndian.Uint64(data))
	return time.UnixMicro(pgEpoch.UnixMicro() + micros).UTC()
}
