package postgres

import (
	"cmp"
	"fmt"
	"strings"
)

// The sizes that initdb --wal-segsize allows, in bytes: powers of two between these.
const (
	MinSegSize     = 1 << 20
	DefaultSegSize = 16 << 20
	MaxSegSize     = 1 << 30
)

// ValidSegSize says whether a server can have WAL segments of n bytes.
func ValidSegSize(n uint64) bool {
	return n >= MinSegSize && n <= MaxSegSize && n&(n-1) == 0
}

// Segment is one file of the write-ahead log. SegSize is the server's WAL segment size in
// bytes, the same for all its segments.
type Segment struct {
	Timeline uint32
	Number   uint64
	SegSize  uint64
}

// SegmentOf is the segment that holds the byte at lsn.
func SegmentOf(timeline uint32, lsn LSN, segSize uint64) Segment {
	return Segment{Timeline: timeline, Number: uint64(lsn) / segSize, SegSize: segSize}
}

// SegmentBefore is the segment that holds the last byte before lsn: the last one that is needed
// to replay up to lsn. It differs from SegmentOf where lsn is the first byte of a segment.
func SegmentBefore(timeline uint32, lsn LSN, segSize uint64) Segment {
	if lsn == 0 {
		return SegmentOf(timeline, 0, segSize)
	}
	return SegmentOf(timeline, lsn-1, segSize)
}

// ParseSegment reads the name of a segment file, 24 hexadecimal digits.
func ParseSegment(name string, segSize uint64) (Segment, error) {
	if !ValidSegSize(segSize) {
		return Segment{}, fmt.Errorf("WAL segment size %d is not a power of two between 1 MiB and 1 GiB", segSize)
	}
	if len(name) != 24 || !isUpperHex(name) {
		return Segment{}, fmt.Errorf("%w WAL segment name %q: want 24 hexadecimal digits", ErrSyntax, name)
	}
	timeline, _ := parseHex32(name[:8])
	log, _ := parseHex32(name[8:16])
	low, _ := parseHex32(name[16:])
	perLog := (1 << 32) / segSize
	if timeline == 0 || uint64(low) >= perLog {
		return Segment{}, fmt.Errorf("%w WAL segment name %q: no such segment with segments of %d bytes", ErrSyntax, name, segSize)
	}
	return Segment{Timeline: timeline, Number: uint64(log)*perLog + uint64(low), SegSize: segSize}, nil
}

func isUpperHex(s string) bool {
	return strings.Trim(s, "0123456789ABCDEF") == ""
}

// Name is the file's name in pg_wal and in an archive.
func (s Segment) Name() string {
	perLog := (1 << 32) / s.SegSize
	return fmt.Sprintf("%08X%08X%08X", s.Timeline, s.Number/perLog, s.Number%perLog)
}

// String is Name.
func (s Segment) String() string { return s.Name() }

// Start is the position of the segment's first byte.
func (s Segment) Start() LSN { return LSN(s.Number * s.SegSize) }

// End is the position after the segment's last byte.
func (s Segment) End() LSN { return LSN((s.Number + 1) * s.SegSize) }

// Next is the segment after this one on the same timeline.
func (s Segment) Next() Segment {
	s.Number++
	return s
}

// Compare orders by timeline, then by position: the order of the names.
func (s Segment) Compare(other Segment) int {
	return cmp.Or(cmp.Compare(s.Timeline, other.Timeline), cmp.Compare(s.Number, other.Number))
}
