package backup

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/backup/internal/codec"
)

// frozen is embedded because go doesn't use a cached result of tests that have read a file of another checkout.
//
//go:embed testdata/*.txt
var frozen embed.FS

// TestAManifestOfThisVersionIsFrozen: what is written for one manifest is what was written when the version was new. If this
// fails and a reader of this version would misread the new text, increment format.Current and add a file and a golden
// repository; if such a reader may ignore what is new, change the file.
func TestAManifestOfThisVersionIsFrozen(t *testing.T) {
	file := fmt.Sprintf("testdata/manifest-%d.txt", format.Current)
	want, err := frozen.ReadFile(file)
	must(t, err)
	m := frozenManifest()
	header, err := json.MarshalIndent(m.Header, "", " ")
	must(t, err)
	text := bytes.NewBuffer(append(header, '\n'))
	for i := range m.Files {
		line, err := appendFile(nil, &m.Files[i])
		must(t, err)
		text.Write(line)
	}
	if text.String() != string(want) {
		t.Errorf("%s has another text than is written now:\n%s", file, text)
	}
}

// firstFrozen is the first version whose text is kept.
const firstFrozen = 2

func TestEveryFrozenManifestReads(t *testing.T) {
	for version := firstFrozen; version <= format.Current; version++ {
		text, err := frozen.ReadFile(fmt.Sprintf("testdata/manifest-%d.txt", version))
		must(t, err)
		header, files, found := strings.Cut(string(text), "\n}\n")
		if !found {
			t.Fatal("no header")
		}
		m, err := decodeManifest(hostile(t, []byte(header+"}"), []byte(files)))
		must(t, err)
		if len(m.Files) != len(frozenManifest().Files) || m.Packs[1].Name != "y-000000" || m.Files[2].Parts[1].Frame.Digest != 1<<63+7 {
			t.Errorf("version %d reads as %+v", version, m)
		}
	}
}

// frozenManifest has each kind of file, and all that a header may have.
func frozenManifest() *Manifest {
	m := sampleManifest()
	m.Format, m.Type, m.Parent, m.Compared, m.Tool = format.Current, Incremental, "b0", ByPages, "v0.1.0"
	m.SystemIdentifier, m.PGVersion, m.PGMajor, m.DataChecksums = "7412345678901234567", "17.5", 17, true
	m.WAL.First, m.WAL.Last = "000000010000000000000002", "000000010000000000000003"
	m.Damage = &Damage{Count: 1, Pages: DamagedPages{{File: "base/1/2", Block: 3, LSN: 0x10}}}
	m.BackupLabel, m.TablespaceMap = "label\n", "16400 /srv/fast\n"
	m.Cluster = Cluster{Namespace: "demo", Name: "shop", UID: "u", Instance: "shop-0", Generation: "g1", Image: "i", Object: json.RawMessage(`{"a":1}`)}
	m.Packs = append(m.Packs, Pack{Backup: "b0", Name: "y-000000", Size: 5})
	m.Totals = Totals{Files: 1, LogicalBytes: 20, CopiedBytes: 20, StoredBytes: 1000, Frames: 2}
	space := File{Path: "pg_tblspc/16400", Kind: Tablespace, Mode: 0o700, MTime: testStart, Link: "/srv/fast"}
	m.Files = append([]File{m.Files[0], space}, m.Files[1:]...)
	m.Files[3].Link = "base"
	m.Files[2].Parts[0].Frame.Coding = codec.MinLZThriceZstd
	return m
}
