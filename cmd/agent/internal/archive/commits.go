package archive

import (
	"fmt"
	"strconv"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
)

// maxTails bounds how many ends of segments are kept for those that follow.
const maxTails = 4 * parallel

// describe is what is known about a file before it is pushed. WAL of another server is refused: its lineage would never
// be restorable. Behind a switch of segments it clears the content, as the server that wrote it does: a former replica may
// not have received that part.
func (t *target) describe(name string, content []byte) (wal.Info, error) {
	info := wal.Info{Writer: t.Writer}
	file, err := postgres.ParseWALFile(name, t.Claim.SegmentSize)
	if err != nil || (file.Kind != postgres.WALSegment && file.Kind != postgres.WALPartial) {
		return info, err
	}
	info.StartLSN = file.Segment.Start()
	scan, err := postgres.ScanWAL(content, t.takeTail(name))
	if err != nil {
		return info, fmt.Errorf("%s holds no WAL: %w", name, err)
	}
	if system := strconv.FormatUint(scan.SystemIdentifier, 10); system != t.Claim.SystemIdentifier {
		return info, fmt.Errorf("%s is WAL of system %s, and the lineage is that of %s", name, system, t.Claim.SystemIdentifier)
	}
	if scan.Switched > 0 {
		clear(content[scan.Switched:])
	}
	t.keepTail(file.Segment.Next().Name(), scan.Tail)
	info.EndLSN = scan.End
	if scan.Commits > 0 {
		info.FirstCommit, info.LastCommit = &scan.First.Time, &scan.Last.Time
	}
	for _, point := range scan.RestorePoints {
		info.RestorePoints = append(info.RestorePoints, wal.RestorePoint{Name: point.Name, LSN: point.LSN, Time: point.Time})
	}
	return info, nil
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
