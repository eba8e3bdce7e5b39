package backup

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/postgres"
)

func sampleManifest() *Manifest {
	return &Manifest{
		Head: Head{
			Format: 1, ID: "b1", Lineage: testLineage, Type: Full, StartLSN: 0x2000028, StopLSN: 0x3000000, Timeline: 1,
			StartTime: testStart, StopTime: testStart, WAL: WALRange{SegmentSize: postgres.DefaultSegSize},
			Packs: []Pack{{Backup: "b1", Name: "x-000000", Size: 1000}}, Totals: Totals{Files: 1},
		},
		Files: []File{
			{Path: "base", Kind: Dir, Mode: 0o700, MTime: testStart, Parts: []Part{}},
			{Path: "base/a\xff", Kind: Regular, Mode: 0o600, Size: 20, MTime: testStart.Add(time.Second), Parts: []Part{
				{FileOffset: 0, Length: 10, Skip: 3, Frame: Frame{Offset: 100, Stored: 20, Content: 30, StoredCRC: 1, ContentCRC: 1 << 31}},
				{FileOffset: 12, Length: 8, Frame: Frame{Offset: 120, Stored: 8, Content: 8, Coding: codec.Raw, Digest: 1<<63 + 7}},
			}},
			{Path: "link", Kind: Symlink, Link: "a\xfe", MTime: testStart, Parts: []Part{}},
		},
	}
}

func FuzzDecodeManifest(f *testing.F) {
	object, err := encodeManifest(sampleManifest())
	must(f, err)
	f.Add(object)
	f.Add(object[:len(object)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, object []byte) {
		m, err := decodeManifest(object)
		if err != nil {
			return
		}
		if _, err := encodeManifest(m); err != nil {
			t.Errorf("what was read can't be written: %v", err)
		}
	})
}

func FuzzParseFile(f *testing.F) {
	m := sampleManifest()
	for i := range m.Files {
		line, err := appendFile(nil, &m.Files[i])
		must(f, err)
		f.Add(line)
	}
	f.Add([]byte(`{"path":"../x","kind":"file"}`))
	f.Add([]byte(`{"path":"x","kind":"file","size":-1,"parts":[[0,1,0,0,0,0,0,0,0,0]]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		file, err := parseFile(line)
		if err != nil || m.checkFile(&file) != nil {
			return
		}
		again, err := appendFile(nil, &file)
		must(t, err)
		if _, err := parseFile(again); err != nil {
			t.Errorf("%s can't be read: %v", again, err)
		}
	})
}
