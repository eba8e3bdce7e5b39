package pgmanifest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup"
)

func sum(b []byte) uint32 { return crc32.Checksum(b, table) }

func FuzzChecksumsOfNeighboursAreCombined(f *testing.F) {
	f.Add([]byte("first"), []byte("second"), uint16(7))
	f.Add([]byte{}, []byte{}, uint16(0))
	f.Add(make([]byte, 5000), []byte{1}, uint16(8192))
	f.Fuzz(func(t *testing.T, a, b []byte, gap uint16) {
		whole := append(append(append([]byte{}, a...), make([]byte, gap)...), b...)
		got := combine(combine(sum(a), zeros(int64(gap)), int64(gap)), sum(b), int64(len(b)))
		if got != sum(whole) {
			t.Errorf("%08x, want %08x", got, sum(whole))
		}
	})
}

func TestTheChecksumOfAFileComesFromItsFrames(t *testing.T) {
	content := make([]byte, 3<<20+77)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	clear(content[1<<20 : 2<<20])      // a hole
	clear(content[len(content)-1000:]) // and one at the end
	part := func(from, to int) backup.Part {
		frame := &backup.Frame{Content: uint32(to - from), ContentCRC: sum(content[from:to])}
		return backup.Part{FileOffset: int64(from), Length: uint32(to - from), Frame: frame}
	}
	f := &backup.File{Size: int64(len(content)), Parts: []backup.Part{part(0, 1<<20), part(2<<20, len(content)-1000)}}
	if got, known := fromParts(f); !known || got != sum(content) {
		t.Errorf("%08x, %t; want %08x", got, known, sum(content))
	}
	f.Parts[0].Frame.Content++
	if _, known := fromParts(f); known {
		t.Error("a shared frame was taken for the file's own")
	}
	if got, known := fromParts(&backup.File{}); !known || got != 0 {
		t.Errorf("an empty file: %08x, %t", got, known)
	}
}

// sample is a restored folder, and its manifest.
func sample(t *testing.T) (string, *backup.Manifest) {
	dir := t.TempDir()
	m := &backup.Manifest{Header: backup.Header{Timeline: 1, StartLSN: 0x2000028, StopLSN: 0x3000100}}
	for name, content := range map[string]string{
		"PG_VERSION": "17\n", "sch\u00f6n <&> \"quoted\"": "x", "bad\xffname": "latin", "backup_label": "START", "global/pg_control.new": "control",
		"postgresql.auto.conf": "# changed since",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != "backup_label" {
			file := backup.File{Path: strings.TrimSuffix(name, ".new"), Kind: backup.Regular, Size: int64(len(content)), MTime: time.Unix(1e9, 0)}
			if name != "postgresql.auto.conf" {
				frame := &backup.Frame{Content: 1 << 20}
				file.Parts = []backup.Part{{Length: uint32(len(content)), Skip: 5, Frame: frame}}
			}
			m.Files = append(m.Files, file)
		}
	}
	if err := os.Symlink("PG_VERSION", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	m.Files = append(m.Files, backup.File{Path: "link", Kind: backup.Symlink}, backup.File{Path: "pg_wal/x", Kind: backup.Regular}, backup.File{Path: "base", Kind: backup.Dir})
	return dir, m
}

func TestTheManifestNamesEveryFileAndGuardsItself(t *testing.T) {
	dir, m := sample(t)
	onDisk := func(path string) string { return strings.Replace(path, "pg_control", "pg_control.new", 1) }
	if err := Write(t.Context(), dir, m, onDisk); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version  int        `json:"PostgreSQL-Backup-Manifest-Version"`
		Files    []entry    `json:"Files"`
		Ranges   []walRange `json:"WAL-Ranges"`
		Checksum string     `json:"Manifest-Checksum"`
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatalf("%v: %s", err, content)
	}
	names := map[string]entry{}
	for _, e := range got.Files {
		names[e.Path+e.EncodedPath] = e
	}
	for _, name := range []string{"PG_VERSION", "sch\u00f6n <&> \"quoted\"", "626164ff6e616d65", "backup_label", "global/pg_control", "postgresql.auto.conf", "link"} {
		if names[name].Algorithm != "CRC32C" || len(names[name].Checksum) != 8 {
			t.Errorf("%q: %+v", name, names[name])
		}
	}
	if len(names) != 7 || got.Version != 1 || got.Ranges[0] != (walRange{1, "0/2000028", "0/3000100"}) {
		t.Errorf("%+v", got)
	}
	text := strings.TrimSuffix(string(content), "\n")
	guarded := text[:strings.LastIndexByte(text, '\n')+1]
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(guarded))); got.Checksum != want {
		t.Errorf("checksum %s, want %s", got.Checksum, want)
	}
}
