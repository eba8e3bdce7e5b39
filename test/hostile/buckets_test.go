package hostile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

const (
	lineage = "7412345678901234567-g1"
	id      = "b1"
	keyHex  = "6f7761682d676f6c64656e2d6b65792d6f7761682d676f6c64656e2d6b657921"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, store objstore.Store, key string, body []byte) {
	t.Helper()
	must(t, store.Put(t.Context(), key, body, objstore.PutOptions{}))
}

// manifest is one that nobody has checked, with right checksums.
func manifest(t *testing.T, header, body string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	must(t, err)
	storedHeader, storedBody := encoder.EncodeAll([]byte(header), nil), encoder.EncodeAll([]byte(body), nil)
	meta, err := json.Marshal(map[string]any{
		"headStored": len(storedHeader), "headCRC32C": crc32.Checksum(storedHeader, castagnoli),
		"bodyStored": len(storedBody), "bodyCRC32C": crc32.Checksum(storedBody, castagnoli), "bodySize": len(body),
	})
	must(t, err)
	object := make([]byte, 24)
	binary.LittleEndian.PutUint32(object, 0x184D2A5D)
	binary.LittleEndian.PutUint32(object[4:], uint32(16+len(meta)))
	copy(object[8:], "HOWDAHM\x02")
	object = slices.Concat(object, meta)
	sum := crc32.Update(crc32.Checksum(object[:20], castagnoli), castagnoli, object[24:])
	binary.LittleEndian.PutUint32(object[20:], sum)
	return slices.Concat(object, storedHeader, storedBody)
}

// header of a backup of no files.
func header(more string) string {
	return fmt.Sprintf(`{"format":2,"id":%q,"lineage":%q,"type":"full","systemIdentifier":"7412345678901234567","pgVersion":"17.5","pgMajor":17,
"startLSN":"0/2000028","stopLSN":"0/2000100","timeline":1,"startTime":"2026-03-04T05:06:07Z","stopTime":"2026-03-04T05:06:08Z",
"wal":{"segmentSize":16777216,"first":"000000010000000000000002","last":"000000010000000000000002"},"packs":[],"totals":{"files":0}%s}`, id, lineage, more)
}

// bucket is a repository in a folder with one manifest.
func bucket(t *testing.T, object []byte) string {
	t.Helper()
	dir := t.TempDir()
	store, err := folder.Open(dir)
	must(t, err)
	put(t, store, layout.MarkerKey, []byte(`{"format":2,"created":"2026-03-04T05:06:07Z"}`))
	put(t, store, layout.LineageKey(lineage), fmt.Appendf(nil, `{"format":2,"lineage":%q,"writer":{"uid":"u","namespace":"demo","name":"shop"},"systemIdentifier":"7412345678901234567","generation":"g1","segmentSize":16777216}`, lineage))
	put(t, store, layout.ManifestKey(lineage, id), object)
	return dir
}

// link is a manifest with one link.
func link(t *testing.T, path, target string) []byte {
	line := fmt.Sprintf(`{"path":%q,"kind":"symlink","link":%q,"mtime":"2026-03-04T05:06:07Z"}`+"\n", path, target)
	return manifest(t, header(""), line)
}

// hostileBuckets are those that lie in a folder.
func hostileBuckets(t *testing.T) map[string]string {
	many := strings.Repeat(`,{"backup":"b1","name":"x-000000","size":1}`, 1<<20)
	return map[string]string{
		"a header of spaces":      bucket(t, manifest(t, strings.Repeat(" ", 60<<20)+header(""), "")),
		"a header of packs":       bucket(t, manifest(t, strings.Replace(header(""), `"packs":[]`, `"packs":[{"backup":"b1","name":"x-000000","size":1}`+many+`]`, 1), "")),
		"a list of spaces":        bucket(t, manifest(t, header(""), strings.Repeat(" ", 200<<20))),
		"a line without an end":   bucket(t, manifest(t, header(""), `{"path":"`+strings.Repeat("x", 200<<20))),
		"a link that leads out":   bucket(t, link(t, "log", "../../outside")),
		"a link to the root":      bucket(t, link(t, "log", "/etc")),
		"a link in place of WAL":  bucket(t, link(t, "pg_wal/000000010000000000000002", "../base")),
		"a file that leads out":   bucket(t, manifest(t, header(""), `{"path":"../outside","kind":"file","mode":"0600","size":0,"mtime":"2026-03-04T05:06:07Z"}`+"\n")),
		"a file of many exabytes": bucket(t, manifest(t, header(""), `{"path":"x","kind":"file","mode":"0600","size":9223372036854775807,"mtime":"2026-03-04T05:06:07Z","parts":[[0,9223372036854775807,0,0,0,1,9223372036854775807,0,0,1]]}`+"\n")),
		"noise":                   bucket(t, []byte(strings.Repeat("HOWDAH", 1000))),
	}
}

// sealedIn opens the encrypted repository in a folder.
func sealedIn(t *testing.T, dir string) objstore.Store {
	t.Helper()
	store, err := folder.Open(dir)
	must(t, err)
	keys, err := sealed.ParseKeys(map[string][]byte{"k1": []byte(keyHex)}, "")
	must(t, err)
	return sealed.New(store, sealed.Fixed(keys), sealed.Options{})
}

// transplanted is an encrypted repository into which keys/ and lineages/ of another with the same Secret were copied.
func transplanted(t *testing.T) string {
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		must(t, sealed.Unlock(t.Context(), sealedIn(t, dir)))
	}
	source := sealedIn(t, from)
	put(t, source, layout.LineageKey(lineage), fmt.Appendf(nil, `{"format":2,"lineage":%q,"writer":{"uid":"u"},"systemIdentifier":"7412345678901234567","generation":"g1","segmentSize":16777216}`, lineage))
	put(t, source, layout.ManifestKey(lineage, id), manifest(t, header(""), ""))
	for _, name := range []string{"keys", "lineages"} {
		must(t, os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(from, name))))
	}
	return to
}

// asError is nil if a verification found nothing wrong.
func asError(verified backup.Verified) error {
	if verified.WrongObjects > 0 {
		return verified.Wrong[0]
	}
	return nil
}
