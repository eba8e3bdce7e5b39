package backup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/heaptest"
)

func sampleManifest() *Manifest {
	return &Manifest{
		Header: Header{
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
		var m *Manifest
		var err error
		heaptest.AtMost(t, 32<<20, 512, len(object), func() { m, err = decodeManifest(object) })
		if err != nil {
			return
		}
		if _, err := encodeManifest(m); err != nil {
			t.Errorf("what was read can't be written: %v", err)
		}
	})
}

// FuzzALinkThatIsTakenStaysInTheDataDirectory looks at each link by what path says of it, whatever the rules of the reader are.
func FuzzALinkThatIsTakenStaysInTheDataDirectory(f *testing.F) {
	for _, link := range [][2]string{{"log", "/var/log"}, {"base/log", "../../log"}, {"base/here", "16384"}, {"log", "x/../../y"},
		{"pg_wal/x", "../base"}, {"pg_tblspc/1/PG_17/5", "../other"}, {"pg_tblspc/1/PG_17/5", "../../../noise"}, {"a", ""}, {"a/b", "./.."}} {
		f.Add(link[0], link[1])
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		m := linked(File{Path: "pg_tblspc/1", Kind: Tablespace, Link: "/fast"}, link(name, target))
		object, err := encodeManifest(m)
		if err != nil {
			return
		}
		read, err := decodeManifest(object)
		if err != nil {
			return
		}
		for i := range read.Files {
			if file := &read.Files[i]; file.Kind == Symlink {
				staysInside(t, file)
			}
		}
	})
}

// staysInside says where a link leads, if no folder on the way is a link.
func staysInside(t *testing.T, file *File) {
	t.Helper()
	root := "data"
	if strings.HasPrefix(file.Path, "pg_tblspc/") {
		root = path.Join(root, path.Join(strings.SplitN(file.Path, "/", 3)[:2]...))
	}
	leads := path.Join("data", path.Dir(file.Path), file.Link)
	switch {
	case path.IsAbs(file.Link), leads != root && !strings.HasPrefix(leads, root+"/"):
		t.Errorf("the link %q to %q leads out, to %s", file.Path, file.Link, leads)
	case plain[file.Path], written[file.Path], strings.HasPrefix(file.Path, "pg_wal/"):
		t.Errorf("the link %q is in the place of what is opened by its name", file.Path)
	}
}

// FuzzAManifestTakesMemoryByItsSize has right checksums around a header and a list of files that mean anything.
func FuzzAManifestTakesMemoryByItsSize(f *testing.F) {
	header, err := json.Marshal(sampleManifest().Header)
	must(f, err)
	f.Add(header, []byte(`{"path":"base","kind":"dir","mode":"0700","mtime":"2026-01-02T03:04:05Z"}`+"\n"), 1)
	f.Add(header, []byte(" "), 1<<20)
	f.Add([]byte(`{"packs":[{}`), []byte(",{}"), 1<<16)
	f.Add(header, []byte(`{"path":"x","kind":"file","size":1,"parts":[[0,1,0,0,0,1,1,0,0,0]`), 1<<10)
	f.Fuzz(func(t *testing.T, header, body []byte, times int) {
		if times < 1 || times > 1<<20 || len(body)*times > 8<<20 {
			return
		}
		object := hostile(t, header, bytes.Repeat(body, times))
		// An entry of a list takes more than it has bytes, and what the streams expand to is bounded by what is stored.
		most := uint64(32<<20) + 512*uint64(len(object)) + 64*uint64(len(header))
		if took := heaptest.Allocated(func() { _, _ = decodeManifest(object) }); took > most {
			t.Errorf("an object of %d bytes took %d MiB", len(object), took>>20)
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
		var file File
		var err error
		heaptest.AtMost(t, 1<<20, 256, len(line), func() { file, err = parseFile(line, &sharedFrames{}) })
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
