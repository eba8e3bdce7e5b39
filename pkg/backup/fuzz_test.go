package backup

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/postgres"
)

func sampleManifest() *Manifest {
	return &Manifest{
		Head: Head{
			Format: FormatVersion, ID: "b1", Lineage: testLineage, Type: Full, StartLSN: 0x2000028, StopLSN: 0x3000000, Timeline: 1,
			StartTime: testStart, StopTime: testStart, WAL: WALRange{SegmentSize: postgres.DefaultSegSize},
			Packs: []Pack{{Backup: "b1", Name: "x-000000", Size: 1000}}, Totals: Totals{Files: 1},
		},
		Files: []File{
			{Path: "base", Kind: Dir, Mode: 0o700, MTime: testStart, Parts: []Part{}},
			{Path: "base/a\xff", Kind: Regular, Mode: 0o600, Size: 20, MTime: testStart.Add(time.Second), Parts: []Part{
				{FileOffset: 0, Length: 10, Skip: 3, Frame: &Frame{Offset: 100, Stored: 20, Content: 30, StoredCRC: 1, ContentCRC: 1 << 31}},
				{FileOffset: 12, Length: 8, Frame: &Frame{Offset: 120, Stored: 8, Content: 8, Coding: codec.Raw, Digest: 1<<63 + 7}},
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
	f.Add([]byte(`{"path":"\"parts\":[[","kind":"file","size":9,"parts":[[0,9,0,0,0,9,9,0,0,0]],"mtime":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"path":"x","kind":"file","parts":[[0,1,0,0,0,0,0,0,0,0]],"parts":[[0,2,0,0,0,0,0,0,0,0]]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		file, err := parseFile(line, &sharedFrames{})
		if err == nil {
			asJSONSays(t, line, &file)
		}
		if err != nil || m.checkFile(&file) != nil {
			return
		}
		again, err := appendFile(nil, &file)
		must(t, err)
		if _, err := parseFile(again, &sharedFrames{}); err != nil {
			t.Errorf("%s can't be read: %v", again, err)
		}
	})
}

// asJSONSays compares parts with what encoding/json reads.
func asJSONSays(t *testing.T, line []byte, file *File) {
	t.Helper()
	var as struct {
		Parts [][]int64 `json:"parts"`
	}
	if err := json.Unmarshal(line, &as); err != nil {
		t.Fatalf("%s was read, and is no JSON: %v", line, err)
	}
	if len(as.Parts) != len(file.Parts) {
		t.Fatalf("%s has %d parts, %d were read", line, len(as.Parts), len(file.Parts))
	}
	for i, part := range file.Parts {
		want := fmt.Sprint(as.Parts[i])
		if got := strings.ReplaceAll(string(appendPart(nil, part)), ",", " "); got != want && got != strings.TrimSuffix(want, " 0 0]")+"]" {
			t.Errorf("%s was read as %s", want, got)
		}
	}
}
