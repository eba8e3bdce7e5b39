// Package hostiletest makes buckets and servers that mean harm, and the limit of the memory that readers of them must keep to.
package hostiletest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// The backup that each bucket has.
const (
	Lineage = "7412345678901234567-g1"
	ID      = "b1"
)

const (
	lineage = Lineage
	id      = ID
	segment = "000000010000000000000002"
	history = "00000002.history"
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
	storedHeader, storedBody := compress(t, header), compress(t, body)
	return slices.Concat(envelope(t, 'M', map[string]any{
		"headStored": len(storedHeader), "headCRC32C": crc32.Checksum(storedHeader, castagnoli),
		"bodyStored": len(storedBody), "bodyCRC32C": crc32.Checksum(storedBody, castagnoli), "bodySize": len(body),
	}), storedHeader, storedBody)
}

// archived is a file of WAL that nobody has checked, with right checksums.
func archived(t *testing.T, name, content string) []byte {
	t.Helper()
	stored := compress(t, content)
	return slices.Concat(envelope(t, 'W', map[string]any{
		"name": name, "rawSize": len(content), "crc32c": crc32.Checksum([]byte(content), castagnoli),
		"stored": len(stored), "storedCRC32C": crc32.Checksum(stored, castagnoli),
	}), stored)
}

func compress(t *testing.T, content string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	must(t, err)
	return encoder.EncodeAll([]byte(content), nil)
}

// envelope is what each object begins with.
func envelope(t *testing.T, kind byte, meta any) []byte {
	t.Helper()
	content, err := json.Marshal(meta)
	must(t, err)
	object := make([]byte, 24)
	binary.LittleEndian.PutUint32(object, 0x184D2A5D)
	binary.LittleEndian.PutUint32(object[4:], uint32(16+len(content)))
	copy(object[8:], "HOWDAH"+string(kind)+"\x02")
	sum := crc32.Update(crc32.Checksum(object[:20], castagnoli), castagnoli, content)
	binary.LittleEndian.PutUint32(object[20:], sum)
	return slices.Concat(object, content)
}

// header of a backup of no files.
func header(more string) string {
	return fmt.Sprintf(`{"format":2,"id":%q,"lineage":%q,"type":"full","systemIdentifier":"7412345678901234567","pgVersion":"17.5","pgMajor":17,
"startLSN":"0/2000028","stopLSN":"0/2000100","timeline":1,"startTime":"2026-03-04T05:06:07Z","stopTime":"2026-03-04T05:06:08Z",
"wal":{"segmentSize":16777216,"first":"000000010000000000000002","last":"000000010000000000000002"},"packs":[],"totals":{"files":0}%s}`, id, lineage, more)
}

// more are objects of a bucket beside its manifest, by their keys.
type more map[string][]byte

// bucket is a repository in a folder with one manifest.
func bucket(t *testing.T, object []byte, others ...more) string {
	t.Helper()
	dir := t.TempDir()
	store, err := folder.Open(dir)
	must(t, err)
	for _, other := range others {
		for key, body := range other {
			put(t, store, key, body)
		}
	}
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

// Harmless is a bucket that has all that the others have, and means no harm.
func Harmless(t *testing.T) string {
	return bucket(t, manifest(t, header(""), `{"path":"base","kind":"dir","mode":"0700","mtime":"2026-03-04T05:06:07Z"}`+"\n"), more{
		walKey(segment): archived(t, segment, strings.Repeat("\x00", 16<<20)), historyKey: archived(t, history, "1\t0/2000100\tby hand\n"),
	})
}

// Large is a bucket whose backup can be read, and takes about as much memory as a backup may: with that many packs, and with a cluster of
// nearly two MiB. A claim names as many packs.
func Large(t *testing.T, many int) string {
	packs := strings.Builder{}
	for number := range many {
		fmt.Fprintf(&packs, `,{"backup":"b1","name":"x-%06d","size":1}`, number)
	}
	text := strings.Replace(header(fmt.Sprintf(`,"cluster":{"name":"shop","object":{"x":%q}}`, strings.Repeat("x", 19<<16))), `"packs":[]`, `"packs":[`+packs.String()[1:]+`]`, 1)
	return bucket(t, manifest(t, text, ""), more{
		layout.ClaimKey(lineage, "b2", "x"): fmt.Appendf(nil, `{"backup":"b2","packs":[%s]}`, packs.String()[1:]),
		walKey(segment):                     archived(t, segment, strings.Repeat("\x00", 16<<20)), historyKey: archived(t, history, "1\t0/2000100\tby hand\n"),
	})
}

func walKey(name string) string { return layout.TimelinePrefix(lineage, 1) + name }

const historyKey = "lineages/" + lineage + "/wal/history/" + history

// Buckets are folders. Those of Files mean harm in the list of files of the backup, which nobody reads for its header, those of WAL in
// what is archived, and those of Claims in what says which packs are in use.
type Buckets struct{ Headers, Files, WAL, Claims map[string]string }

// All of them.
func (b Buckets) All() map[string]string {
	all := map[string]string{}
	for _, some := range []map[string]string{b.Headers, b.Files, b.WAL, b.Claims} {
		maps.Copy(all, some)
	}
	return all
}

// New makes buckets that mean harm.
func New(t *testing.T) Buckets {
	buckets := ForControllers(t)
	buckets.Files = files(t)
	return buckets
}

// ForControllers makes those that mean harm to controllers, which read no list of files.
func ForControllers(t *testing.T) Buckets {
	packs := strings.Repeat(`,{"backup":"b1","name":"x-000000","size":1}`, 1<<20)
	fine := manifest(t, header(""), "")
	return Buckets{
		Headers: map[string]string{
			"a header of spaces":             bucket(t, manifest(t, strings.Repeat(" ", 60<<20)+header(""), "")),
			"a header of packs":              bucket(t, manifest(t, strings.Replace(header(""), `"packs":[]`, `"packs":[{"backup":"b1","name":"x-000000","size":1}`+packs+`]`, 1), "")),
			"noise":                          bucket(t, []byte(strings.Repeat("HOWDAH", 1000))),
			"a repository that was moved":    transplanted(t),
			"a manifest that nobody sealed":  planted(t, objstore.Encryption{}),
			"a manifest that nobody signed":  planted(t, objstore.Encryption{Sign: true}),
			"a manifest of another backup":   bucket(t, manifest(t, strings.Replace(header(""), `"id":"b1"`, `"id":"b2"`, 1), "")),
			"a manifest of a later version":  bucket(t, slices.Concat(fine[:15], []byte{99}, fine[16:])),
			"WAL that ends before it begins": bucket(t, manifest(t, strings.Replace(header(""), `"first":"000000010000000000000002"`, `"first":"000000010000000000000003"`, 1), "")),
		},
		WAL: map[string]string{
			"a segment that expands":    bucket(t, fine, more{walKey(segment): archived(t, segment, strings.Repeat("\x00", 300<<20)), historyKey: archived(t, history, "?")}),
			"a history that expands":    bucket(t, fine, more{historyKey: archived(t, history, strings.Repeat("1\t0/2000100\tno\n", 16<<20)), walKey(segment): archived(t, segment, "?")}),
			"a segment of another name": bucket(t, fine, more{walKey(segment): archived(t, "000000010000000000000003", "x"), historyKey: archived(t, "00000003.history", "x")}),
		},
		Claims: map[string]string{
			"a claim of packs": bucket(t, fine, more{layout.ClaimKey(lineage, "b2", "x"): fmt.Appendf(nil, `{"backup":"b2","packs":[{"backup":"b1","name":"../x","size":1}%s]}`, packs)}),
			"a claim of noise": bucket(t, fine, more{layout.ClaimKey(lineage, "b2", "x"): []byte(strings.Repeat("HOWDAH", 10<<20))}),
		},
	}
}

func files(t *testing.T) map[string]string {
	return map[string]string{
		"a list of spaces":        bucket(t, manifest(t, header(""), strings.Repeat(" ", 200<<20))),
		"a line without an end":   bucket(t, manifest(t, header(""), `{"path":"`+strings.Repeat("x", 200<<20))),
		"a link that leads out":   bucket(t, link(t, "log", "../../outside")),
		"a link to the root":      bucket(t, link(t, "log", "/etc")),
		"a link in place of WAL":  bucket(t, link(t, "pg_wal/"+segment, "../base")),
		"a file that leads out":   bucket(t, manifest(t, header(""), `{"path":"../outside","kind":"file","mode":"0600","size":0,"mtime":"2026-03-04T05:06:07Z"}`+"\n")),
		"a file of many exabytes": bucket(t, manifest(t, header(""), `{"path":"x","kind":"file","mode":"0600","size":9223372036854775807,"mtime":"2026-03-04T05:06:07Z","parts":[[0,9223372036854775807,0,0,0,1,9223372036854775807,0,0,1]]}`+"\n")),
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

// planted is a repository with keys, in which somebody without them has put a manifest.
func planted(t *testing.T, keys objstore.Encryption) string {
	from, to := bucket(t, manifest(t, header(""), "")), t.TempDir()
	store, err := folder.Open(to)
	must(t, err)
	keys.Entries = objstore.KeyEntries{"k1": []byte(keyHex)}
	must(t, sealed.Unlock(t.Context(), open.Sealed(store, &keys)))
	must(t, os.CopyFS(filepath.Join(to, "lineages"), os.DirFS(filepath.Join(from, "lineages"))))
	return to
}

// Keys are those of the buckets that have some; nil: this one has none.
func Keys(dir string) *objstore.Encryption {
	if _, err := os.Stat(filepath.Join(dir, "keys")); err != nil {
		return nil
	}
	return &objstore.Encryption{Entries: objstore.KeyEntries{"k1": []byte(keyHex)}, Either: true}
}
