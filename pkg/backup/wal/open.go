package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// A segment that its server still writes may be in the archive in pieces, each of which is put once and never replaced, as
// what a server has flushed doesn't change any more. Who reads the segment gets them one after the other, with zeroes after,
// at which recovery ends. The whole segment comes before its pieces, and removes them.

// openMark stands between the name of a segment and what of it is in a piece.
const openMark = ".open."

// piece is a part of an open segment.
type piece struct {
	segment  string
	from, to int64
}

func (p piece) name() string { return fmt.Sprintf("%s%s%08X-%08X", p.segment, openMark, p.from, p.to) }

// parsePiece reads the name of a piece; false: it is none.
func parsePiece(name string) (piece, bool) {
	segment, part, found := strings.Cut(name, openMark)
	from, to, ranged := strings.Cut(part, "-")
	if !found || !ranged || len(from) != 8 || len(to) != 8 {
		return piece{}, false
	}
	first, errFirst := strconv.ParseInt(from, 16, 64)
	last, errLast := strconv.ParseInt(to, 16, 64)
	p := piece{segment, first, last}
	file, err := postgres.ParseWALName(segment)
	valid := err == nil && file.Kind == postgres.WALSegment && errFirst == nil && errLast == nil && first < last && last <= postgres.MaxSegSize
	return p, valid && p.name() == name
}

// OpenSegment is the name of the segment that an object holds a piece of; false: it is no piece.
func OpenSegment(name string) (string, bool) {
	p, is := parsePiece(name)
	return p.segment, is
}

// FirstPiece is the name of the segment of which an object holds the first piece, without which no other one counts; false: it is
// no piece, or a later one.
func FirstPiece(name string) (string, bool) {
	p, is := parsePiece(name)
	return p.segment, is && p.from == 0
}

// chain is the longest unbroken row of pieces from the segment's begin on. A put whose outcome wasn't known may have left one
// that others overlap.
func chain(pieces []piece) (row []piece) {
	for end := int64(0); ; {
		next := piece{to: end}
		for _, p := range pieces {
			if p.from == end && p.to > next.to {
				next = p
			}
		}
		if next.to == end {
			return row
		}
		row, end = append(row, next), next.to
	}
}

// PutOpen archives a part of a segment that is still written: what lies between two offsets, which write writes. What is known
// is that of the whole segment up to there. The same part again succeeds; with another content it is a *ConflictError.
func (a *Archive) PutOpen(ctx context.Context, lineage string, segment postgres.Segment, from, to int64, info Info, write func(io.Writer) error) error {
	name := piece{segment.Name(), from, to}.name()
	if _, is := parsePiece(name); !is {
		return fmt.Errorf("%w: %s", layout.ErrName, name)
	}
	info.SegmentSize = int64(segment.SegSize)
	return a.put(ctx, lineage, layout.TimelinePrefix(lineage, segment.Timeline)+name, name, to-from, Thorough, func(w io.Writer) (Info, error) {
		return info, write(w)
	})
}

// OpenEnd is up to which offset an open segment is in the archive, in pieces.
func (a *Archive) OpenEnd(ctx context.Context, lineage string, segment postgres.Segment) (int64, error) {
	row, err := a.open(ctx, lineage, segment.Name())
	if err != nil || len(row) == 0 {
		return 0, err
	}
	return row[len(row)-1].to, nil
}

// RemoveOpen removes the pieces of a segment that is archived as a whole.
func (a *Archive) RemoveOpen(ctx context.Context, lineage, segment string) error {
	prefix, err := Key(lineage, segment)
	if err != nil {
		return err
	}
	var keys []string
	for info, err := range a.store.List(ctx, prefix+openMark, "") {
		if err != nil {
			return err
		}
		if _, is := parsePiece(path.Base(info.Key)); is {
			keys = append(keys, info.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return a.store.Delete(ctx, keys...)
}

// open lists the pieces of a segment that follow each other from its begin on. There are none if there is WAL after it: then
// the whole segment is missing, or on its way, and who took the pieces for it would take it for the end of the archive.
func (a *Archive) open(ctx context.Context, lineage, segment string) ([]piece, error) {
	key, err := Key(lineage, segment)
	if err != nil {
		return nil, err
	}
	var all []piece
	for info, err := range a.store.List(ctx, layout.TimelinePrefix(lineage, timelineOf(segment)), key) {
		if err != nil {
			return nil, err
		}
		name := path.Base(info.Key)
		if !strings.HasPrefix(name, segment) {
			return nil, nil
		}
		if p, is := parsePiece(name); is {
			all = append(all, p)
		}
	}
	return chain(all), nil
}

// pieceOf is one that was read.
type pieceOf struct {
	header Header
	frame  []byte
}

// readOpen reads an open segment. objstore.ErrNotFound: it isn't there, or no more.
func (a *Archive) readOpen(ctx context.Context, lineage, segment string) ([]pieceOf, error) {
	row, err := a.open(ctx, lineage, segment)
	if err != nil {
		return nil, err
	}
	if len(row) == 0 {
		return nil, fmt.Errorf("%w: WAL segment %s of lineage %s is not archived", objstore.ErrNotFound, segment, lineage)
	}
	var pieces []pieceOf
	for _, p := range row {
		key := layout.TimelinePrefix(lineage, timelineOf(segment)) + p.name()
		frame, header, err := a.read(ctx, key, p.name())
		if err != nil {
			return nil, err
		}
		if header.RawSize != p.to-p.from || header.SegmentSize < p.to {
			return nil, fmt.Errorf("%w: %s: a piece of %d bytes", ErrCorrupt, key, header.RawSize)
		}
		pieces = append(pieces, pieceOf{header, frame})
	}
	return pieces, nil
}

func timelineOf(segment string) uint32 {
	timeline, _ := strconv.ParseUint(segment[:8], 16, 32) // the name was parsed before
	return uint32(timeline)
}

// getOpen is GetTo of an open segment.
func (a *Archive) getOpen(ctx context.Context, lineage, segment string, w io.Writer) (Header, error) {
	pieces, err := a.readOpen(ctx, lineage, segment)
	if err != nil {
		return Header{}, err
	}
	written := int64(0)
	for _, p := range pieces {
		if err := a.decompress(p.frame, p.header, w); err != nil {
			return Header{}, fmt.Errorf("%s of lineage %s: %w", p.header.Name, lineage, err)
		}
		written += p.header.RawSize
	}
	header := whole(pieces[len(pieces)-1].header, segment)
	_, err = io.CopyN(w, zeroes{}, header.RawSize-written)
	return header, err
}

// headerOfOpen is ReadHeader of an open segment: what the last piece says is known of all.
func (a *Archive) headerOfOpen(ctx context.Context, lineage, segment string) (Header, error) {
	row, err := a.open(ctx, lineage, segment)
	if err != nil {
		return Header{}, err
	}
	if len(row) == 0 {
		return Header{}, fmt.Errorf("%w: WAL segment %s of lineage %s is not archived", objstore.ErrNotFound, segment, lineage)
	}
	name := row[len(row)-1].name()
	header, err := a.readHeader(ctx, layout.TimelinePrefix(lineage, timelineOf(segment))+name, name)
	return whole(header, segment), err
}

// whole is the header of the segment that a piece is the last one of.
func whole(last Header, segment string) Header {
	last.Name, last.RawSize, last.CRC32C = segment, last.SegmentSize, 0
	return last
}

// orOpen does what was done for a whole segment for an open one, where there is no whole one; and for the whole one once more,
// if that has taken the place of the open one meanwhile.
func orOpen[T any](name string, ofWhole, ofOpen func() (T, error)) (T, error) {
	result, err := ofWhole()
	if len(name) != segmentName || !errors.Is(err, objstore.ErrNotFound) {
		return result, err
	}
	if result, err = ofOpen(); errors.Is(err, objstore.ErrNotFound) {
		return ofWhole()
	}
	return result, err
}

const segmentName = 24 // hexadecimal digits

// zeroes are without an end.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
