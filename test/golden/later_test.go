package golden

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/format"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
)

// TestWhatALaterVersionWroteIsToldFromDamage reads each kind of object with a later number in it.
func TestWhatALaterVersionWroteIsToldFromDamage(t *testing.T) {
	segment := Segment(1).Name()
	walKey, err := wal.Key(Lineage, segment)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		key   string
		later func(t *testing.T, object []byte) []byte
		read  func(t *testing.T, store objstore.Store) error
		kind  error
	}{
		"the mark of the repository": {layout.MarkerKey, laterJSON, func(t *testing.T, store objstore.Store) error {
			_, err := layout.ReadMarker(t.Context(), store)
			return err
		}, layout.ErrFormat},
		"a lineage": {layout.LineageKey(Lineage), laterJSON, func(t *testing.T, store objstore.Store) error {
			_, err := layout.ReadLineage(t.Context(), store, Lineage)
			return err
		}, layout.ErrFormat},
		"a manifest": {layout.ManifestKey(Lineage, Full), laterEnvelope, func(t *testing.T, store objstore.Store) error {
			_, err := backup.ReadManifest(t.Context(), store, Lineage, Full)
			return err
		}, backup.ErrFormat},
		"the header of a manifest": {layout.ManifestKey(Lineage, Full), laterEnvelope, func(t *testing.T, store objstore.Store) error {
			_, err := backup.ReadHeader(t.Context(), store, Lineage, Full)
			return err
		}, backup.ErrFormat},
		"a WAL segment": {walKey, laterEnvelope, func(t *testing.T, store objstore.Store) error {
			_, _, err := wal.New(store).Get(t.Context(), Lineage, segment)
			return err
		}, wal.ErrFormat},
		"the header of a WAL segment": {walKey, laterEnvelope, func(t *testing.T, store objstore.Store) error {
			_, err := wal.New(store).ReadHeader(t.Context(), Lineage, segment)
			return err
		}, wal.ErrFormat},
	} {
		t.Run(name, func(t *testing.T) {
			store := changed(t, test.key, test.later)
			err := test.read(t, store)
			if !errors.Is(err, test.kind) || errors.Is(err, objstore.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			for _, words := range []string{test.key, "written by a later version of Howdah"} {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in %v", words, err)
				}
			}
		})
	}
}

// changed is a copy of the plain repository in which one object is another.
func changed(t *testing.T, key string, change func(*testing.T, []byte) []byte) objstore.Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/v1/plain")); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(dir, filepath.FromSlash(key))
	object, err := os.ReadFile(place)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place, change(t, object), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func laterJSON(t *testing.T, object []byte) []byte {
	t.Helper()
	later := bytes.Replace(object, []byte(`"format": 1`), []byte(`"format": 9`), 1)
	if bytes.Equal(later, object) {
		t.Fatalf("no format in %s", object)
	}
	return later
}

// laterEnvelope has the number of a later version, meta data that only that knows, and a checksum that is right.
func laterEnvelope(_ *testing.T, object []byte) []byte {
	end := int(binary.LittleEndian.Uint32(object[4:])) + 8
	meta := []byte("not JSON")
	later := bytes.Clone(object[:24])
	later[15] = format.Current + 1
	binary.LittleEndian.PutUint32(later[4:], uint32(16+len(meta)))
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(later[20:], crc32.Update(crc32.Checksum(later[:20], table), table, meta))
	return append(append(later, meta...), object[end:]...)
}
