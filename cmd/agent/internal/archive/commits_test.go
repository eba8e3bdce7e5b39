package archive

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/postgres"
)

func TestBehindASwitchOfSegmentsOnlyZeroesAreArchived(t *testing.T) {
	page, pages := 10, 5
	whole := bytes.Repeat([]byte("x"), page*pages)
	for switched := range page*pages + 1 {
		known := (switched + page - 1) / page // pages that were read when the switch is found
		out := bytes.Buffer{}
		into := &clearing{to: &out}
		for n := range known {
			if _, err := into.Write(whole[n*page:][:page]); err != nil {
				t.Fatal(err)
			}
		}
		into.from = int64(switched)
		if _, err := io.Copy(into, bytes.NewReader(whole[known*page:])); err != nil {
			t.Fatal(err)
		}
		if err := into.flush(); err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(whole)
		if switched > 0 { // at 0 there was no switch
			clear(want[switched:])
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("a switch at %d: %q", switched, out.Bytes())
		}
	}
}

// damagedSegment is a segment with a single record, whose checksum is wrong.
func damagedSegment() []byte {
	content := make([]byte, postgres.MinSegSize)
	binary.LittleEndian.PutUint16(content, 0xD110)      // PostgreSQL 15
	binary.LittleEndian.PutUint16(content[2:], 2)       // a long header
	binary.LittleEndian.PutUint32(content[4:], 2)       // the timeline
	binary.LittleEndian.PutUint64(content[8:], 0xA<<20) // where it begins
	binary.LittleEndian.PutUint64(content[24:], 7)      // the system
	binary.LittleEndian.PutUint32(content[32:], postgres.MinSegSize)
	binary.LittleEndian.PutUint32(content[36:], 8192)
	binary.LittleEndian.PutUint32(content[40:], 32) // the length of the record
	return content
}

func TestDamagedWALIsArchivedAndReported(t *testing.T) {
	for name, reported := range map[string]bool{segment: true, segment + ".partial": false} {
		found := &target{now: func() time.Time { return time.Unix(9, 0) }, tails: map[string]postgres.WALTail{}}
		found.Claim = layout.Lineage{SystemIdentifier: system, SegmentSize: postgres.MinSegSize}
		out := bytes.Buffer{}
		if _, err := found.copy(&out, bytes.NewReader(damagedSegment()), name); err != nil || out.Len() != postgres.MinSegSize {
			t.Fatalf("%s: %d bytes, %v", name, out.Len(), err)
		}
		damaged := found.damage()
		if (damaged != nil) != reported || damaged != nil && (damaged.Segment != name || damaged.LSN != "0/A00028") {
			t.Errorf("%s: reported %+v", name, damaged)
		}
	}
}
