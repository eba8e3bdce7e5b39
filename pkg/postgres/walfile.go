package postgres

import (
	"fmt"
	"strings"
)

// WALFileKind is what a file that PostgreSQL archives is.
type WALFileKind int

// What archive_command and restore_command are asked for.
const (
	WALSegment       WALFileKind = iota + 1 // a whole segment
	WALPartial                              // the last, incomplete segment of a former timeline
	WALHistory                              // the history of a timeline
	WALBackupHistory                        // says where a base backup started and ended
)

// WALFile is the name of a file that PostgreSQL archives, taken apart.
type WALFile struct {
	Kind     WALFileKind
	Name     string
	Timeline uint32
	Segment  Segment // not for WALHistory
	Start    LSN     // of the backup, for WALBackupHistory
}

// ParseWALFile recognises the names of segments, of partial segments, of timeline histories and of
// backup histories. Any other name is an error: it must not become part of a path.
func ParseWALFile(name string, segSize uint64) (WALFile, error) {
	base, suffix, _ := strings.Cut(name, ".")
	switch {
	case suffix == "history" && len(base) == 8:
		return parseHistoryName(name, base)
	case suffix == "":
		return segmentFile(WALSegment, name, base, segSize)
	case suffix == "partial":
		return segmentFile(WALPartial, name, base, segSize)
	case strings.HasSuffix(suffix, ".backup"):
		return parseBackupName(name, base, strings.TrimSuffix(suffix, ".backup"), segSize, segSize)
	}
	return WALFile{}, fmt.Errorf("%w WAL file name %q", ErrSyntax, name)
}

// ParseWALName is ParseWALFile for who doesn't know the size of segments: it takes what is a name with any of them. The
// positions of what it returns mean nothing.
func ParseWALName(name string) (WALFile, error) {
	base, suffix, _ := strings.Cut(name, ".")
	if offset, found := strings.CutSuffix(suffix, ".backup"); found {
		return parseBackupName(name, base, offset, MinSegSize, MaxSegSize)
	}
	return ParseWALFile(name, MinSegSize)
}

// HistoryName is the name of a timeline's history file.
func HistoryName(timeline uint32) string { return fmt.Sprintf("%08X.history", timeline) }

func parseHistoryName(name, base string) (WALFile, error) {
	timeline, err := parseHex32(base)
	if err != nil || !isUpperHex(base) || timeline < 2 {
		return WALFile{}, fmt.Errorf("%w timeline history name %q", ErrSyntax, name)
	}
	return WALFile{Kind: WALHistory, Name: name, Timeline: timeline}, nil
}

func segmentFile(kind WALFileKind, name, base string, segSize uint64) (WALFile, error) {
	segment, err := ParseSegment(base, segSize)
	if err != nil || strings.HasSuffix(name, ".") {
		return WALFile{}, fmt.Errorf("%w WAL file name %q", ErrSyntax, name)
	}
	return WALFile{Kind: kind, Name: name, Timeline: segment.Timeline, Segment: segment}, nil
}

func parseBackupName(name, base, offset string, segSize, limit uint64) (WALFile, error) {
	file, err := segmentFile(WALBackupHistory, name, base, segSize)
	at, errOffset := parseHex32(offset)
	if err != nil || errOffset != nil || len(offset) != 8 || !isUpperHex(offset) || uint64(at) >= limit {
		return WALFile{}, fmt.Errorf("%w backup history name %q", ErrSyntax, name)
	}
	file.Start = file.Segment.Start() + LSN(at)
	return file, nil
}
