package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

// maxTails bounds how many ends of segments are kept for those that follow.
const maxTails = 4 * parallel

// copyBuffer is how much of a file is held while it is copied.
const copyBuffer = 128 << 10

// copy copies a file, and finds out on the way what is known about it before it is pushed. WAL of another server is
// refused: its lineage would never be restorable. Behind a switch of segments it writes zeroes, as the server that wrote
// the file does: a former replica may not have received that part.
func (t *target) copy(w io.Writer, file io.Reader, name string) (wal.Info, error) {
	info := wal.Info{Writer: t.Writer}
	source := bufio.NewReaderSize(file, copyBuffer)
	parsed, err := postgres.ParseWALFile(name, t.Claim.SegmentSize)
	if err != nil {
		return info, err
	}
	if parsed.Kind != postgres.WALSegment && parsed.Kind != postgres.WALPartial {
		_, err := io.Copy(w, source)
		return info, err
	}
	into := &clearing{to: w}
	scan, err := postgres.ReadWAL(io.TeeReader(source, into), t.takeTail(name))
	if errors.Is(err, postgres.ErrSyntax) {
		return info, fmt.Errorf("%s holds no WAL: %w", name, err)
	}
	if err != nil {
		return info, err
	}
	if system := strconv.FormatUint(scan.SystemIdentifier, 10); system != t.Claim.SystemIdentifier {
		return info, fmt.Errorf("%s is WAL of system %s, and the lineage is that of %s", name, system, t.Claim.SystemIdentifier)
	}
	into.from = int64(scan.Switched)
	if _, err := io.Copy(into, source); err != nil {
		return info, err
	}
	if err := into.flush(); err != nil {
		return info, err
	}
	t.keepTail(parsed.Segment.Next().Name(), scan.Tail)
	if parsed.Kind == postgres.WALSegment && !scan.Damaged.IsZero() {
		t.noteDamage(name, scan.Damaged)
	}
	return known(info, parsed.Segment, scan), nil
}

// noteDamage keeps the last record whose checksum is wrong. The segment is archived all the same: what is before the record
// can be restored, and nobody has a better copy of the rest.
func (t *target) noteDamage(name string, lsn postgres.LSN) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.damaged != nil && t.damaged.LSN == lsn.String() {
		return // a push that was repeated
	}
	t.damaged = &agentapi.DamagedWAL{Segment: name, LSN: lsn.String(), Time: t.now().UTC()}
}

// damage is the last that was found.
func (t *target) damage() *agentapi.DamagedWAL {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.damaged
}

// known adds what a scan has found.
func known(info wal.Info, segment postgres.Segment, scan postgres.WALScan) wal.Info {
	info.StartLSN, info.EndLSN = segment.Start(), scan.End
	if scan.Commits > 0 {
		info.FirstCommit, info.LastCommit = &scan.First.Time, &scan.Last.Time
	}
	for _, point := range scan.RestorePoints {
		info.RestorePoints = append(info.RestorePoints, wal.RestorePoint{Name: point.Name, LSN: point.LSN, Time: point.Time})
	}
	return info
}

// clearing passes on what is written to it but the last page, and from an offset on, once that is known, zeroes. A switch
// is known when the page that it is on was read, and that page is the last one until the next is read.
type clearing struct {
	to   io.Writer
	from int64 // 0: nothing is cleared
	at   int64 // where last begins
	last []byte
}

func (c *clearing) Write(p []byte) (int, error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	c.last = append(c.last[:0], p...)
	return len(p), nil
}

// flush writes what was held back.
func (c *clearing) flush() error {
	if end := c.at + int64(len(c.last)); c.from > 0 && c.from < end {
		clear(c.last[max(0, c.from-c.at):])
	}
	n, err := c.to.Write(c.last)
	c.at += int64(n)
	c.last = c.last[:0]
	return err
}

// takeTail is the beginning of a record that the segment of this name continues, where its predecessor was read before.
func (t *target) takeTail(name string) postgres.WALTail {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tails[name]
}

func (t *target) keepTail(name string, tail postgres.WALTail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tails) >= maxTails {
		clear(t.tails)
	}
	t.tails[name] = tail
}
