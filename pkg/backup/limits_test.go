package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/backup/internal/codec"
	"howdah.dev/howdah/pkg/backup/internal/envelope"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/heaptest"
)

// hostile makes a manifest of a header and a body that nobody has checked.
func hostile(t *testing.T, header, body []byte) []byte {
	t.Helper()
	encoder, err := codec.NewEncoder(codec.Default, 4<<20)
	must(t, err)
	return hostileStreams(t, encoder.EncodeAll(header, nil), encoder.EncodeAll(body, nil), len(body))
}

// hostileStreams is hostile with streams that nobody has checked either.
func hostileStreams(t *testing.T, storedHeader, storedBody []byte, size int) []byte {
	t.Helper()
	object, err := envelope.Seal(envelope.Manifest, manifestMeta{
		HeaderStored: int64(len(storedHeader)), HeaderCRC32C: codec.CRC(storedHeader),
		BodyStored: int64(len(storedBody)), BodyCRC32C: codec.CRC(storedBody), BodySize: int64(size),
	})
	must(t, err)
	return append(append(object, storedHeader...), storedBody...)
}

func TestAFewKilobytesDoNotExpandToManyMegabytes(t *testing.T) {
	leaveOutForRaces(t)
	header, err := json.Marshal(sampleManifest().Header)
	must(t, err)
	rest, found := bytes.CutPrefix(header, []byte("{"))
	if !found {
		t.Fatal(string(header))
	}
	with := func(field, filling string, times int) []byte {
		return []byte(fmt.Sprintf("{%q:%s,%s", field, strings.Repeat(filling, times), rest))
	}
	spaces := strings.Repeat(" ", 60<<20)
	encoder, err := codec.NewEncoder(codec.Default, 4<<20)
	must(t, err)
	wide := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 19 << 3, 3, 0, 4, ' '} // a stream that wants a window of 512 MiB, and repeats a byte
	for name, object := range map[string][]byte{
		"a header of spaces":         hostile(t, append([]byte(spaces), header...), nil),
		"a long label":               hostile(t, []byte(`{"backupLabel":"`+strings.Repeat("x", 60<<20)+`",`+string(rest)), nil),
		"many packs without a name":  hostile(t, with("packs", "[{}"+strings.Repeat(",{}", 1<<20)+"]", 1), nil),
		"many secrets":               hostile(t, []byte(`{"cluster":{"secrets":[{}`+strings.Repeat(",{}", 1<<20)+`]},`+string(rest)), nil),
		"many secrets in few bytes":  hostile(t, []byte(`{"cluster":{"secrets":[{}`+strings.Repeat(",{}", 600_000)+`]},`+string(rest)), nil),
		"a long label of many words": hostile(t, append([]byte(`{"backupLabel":"`), append(randomText(30<<20), `",`+string(rest)...)...), nil),
		"a list of files of spaces":  hostile(t, header, []byte(spaces)),
		"a header with a window":     hostileStreams(t, wide, nil, 0),
		"a list with a window":       hostileStreams(t, encoder.EncodeAll(header, nil), wide, 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			store := mem.New()
			must(t, store.Put(t.Context(), "lineages/"+testLineage+"/backups/b1/manifest.zst", object, objstore.PutOptions{}))
			var err error
			took := heaptest.Allocated(func() { _, err = ReadManifest(t.Context(), store, testLineage, "b1") })
			if err == nil {
				t.Error("it was accepted")
			}
			if took > 24<<20+uint64(len(object)) { // the store copies it
				t.Errorf("an object of %d KiB took %d MiB", len(object)>>10, took>>20)
			}
		})
	}
}

func TestListsOfAHeaderHaveNoMoreEntriesThanAReaderTakes(t *testing.T) {
	for more, refused := range map[int]bool{0: false, 1: true} {
		for _, list := range []struct {
			into json.Unmarshaler
			text string
			most int
		}{{&Secrets{}, `{"name":"x"}`, maxSecrets}, {&DamagedPages{}, `{"file":"x"}`, maxDamaged}} {
			err := list.into.UnmarshalJSON([]byte("[" + strings.Repeat(list.text+",", list.most+more-1) + list.text + "]"))
			if (err != nil) != refused {
				t.Errorf("%d entries of %s: %v", list.most+more, list.text, err)
			}
		}
	}
}

func TestABackupThatNobodyCouldReadIsRefusedBeforeItIsCommitted(t *testing.T) {
	leaveOutForRaces(t)
	for name, change := range map[string]func(*Manifest){
		"packs": func(m *Manifest) {
			m.Packs = nil
			for i := range 750_000 {
				m.Packs = append(m.Packs, Pack{Backup: strings.Repeat("shop-", 10), Name: fmt.Sprintf("%08x-%06d", i*7919, i), Size: int64(i) * 4999})
			}
		},
		"a label": func(m *Manifest) { m.BackupLabel = string(randomText(65 << 20)) },
	} {
		t.Run(name, func(t *testing.T) {
			m := sampleManifest()
			change(m)
			if object, err := encodeManifest(m); err == nil {
				_, errRead := decodeManifest(object)
				t.Errorf("it was written; reading it says: %v", errRead)
			}
		})
	}
}

func TestWhatNobodyCouldReadIsRefusedBeforeAnythingIsUploaded(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Cluster)
		says   string
	}{
		"a record of two MiB": {func(c *Cluster) { c.Object = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`) }, "what is recorded of the PostgresCluster"},
		"very many logins": {func(c *Cluster) {
			for i := range 4097 {
				c.Secrets = append(c.Secrets, Secret{Purpose: SecretRole, Name: fmt.Sprint("shop-role-", i)})
			}
		}, "4097 Secrets with logins"},
	} {
		t.Run(name, func(t *testing.T) {
			store := mem.New()
			from := source(t, store, pgdata(t))
			test.change(&from.Cluster)
			if _, err := Write(t.Context(), store, from, Options{ID: "b1"}); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v", err)
			}
			if all := keys(t, store); contains(all, "/b1/") {
				t.Errorf("uploaded was %v", all)
			}
		})
	}
}

// An incremental backup that pointed at the packs of so many would be refused by every reader, and its writer, after the upload.
func TestAFullBackupIsMadeWhereAnIncrementalOneWouldPointAtThePacksOfTooMany(t *testing.T) {
	for backups, fits := range map[int]bool{10_000: true, 30_000: false} {
		w := &writing{opts: Options{ID: "new"}, attempt: "a1", packer: &packer{header: packHeader{Backup: "new"}, attempt: "a1"}, fit: Options{}.fit(1 << 40)}
		parent, kept, read := &base{Manifest: &Manifest{}}, &entry{}, names{}
		for i := range backups {
			parent.Packs = append(parent.Packs, Pack{Backup: fmt.Sprintf("%s-%06d", strings.Repeat("shop", 20), i), Name: "a-000001", Size: 1})
			kept.kept = append(kept.kept, Part{Frame: &Frame{Pack: uint32(i)}})
		}
		err := w.nameKept(parent, []*entry{kept})
		for _, pack := range parent.Packs {
			if errRead := read.add(pack.Backup); errRead != nil && err == nil {
				t.Fatalf("%d: it would be written, and reading says %v", backups, errRead)
			}
		}
		if (err == nil) != fits || err != nil && !errors.Is(err, errUnsuitable) {
			t.Errorf("%d backups: %v", backups, err)
		}
	}
}

func TestWhateverAWriterPutsIntoAHeaderAReaderTakes(t *testing.T) {
	leaveOutForRaces(t)
	m := sampleManifest()
	for i := range 2000 {
		m.Packs = append(m.Packs, Pack{Backup: "b1", Name: fmt.Sprintf("%08x-%06d", i*7919, i), Size: int64(i) * 4999})
	}
	empty := m.Header
	empty.Packs = nil
	rest, err := json.Marshal(empty)
	must(t, err)
	for _, less := range []int{0, 1, 1000, maxStep - 100, maxStep} {
		m.BackupLabel = string(randomText(maxRest - len(rest) - less))
		object, err := encodeManifest(m)
		must(t, err)
		if _, err := decodeManifest(object); err != nil {
			t.Errorf("%d bytes less than what fits: %v", less, err)
		}
	}
	m.BackupLabel += string(randomText(maxStep + 1))
	if _, err := encodeManifest(m); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more than what fits: %v", err)
	}
}

func TestPacksMayStandAnywhereInAHeader(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"b1","packs":[{"backup":"b1","name":"x","size":7}],"lineage":"l"}`: "b1 l 7",
		`{"packs":[{"backup":"b1","name":"x","size":7}],"id":"b1","lineage":"l"}`: "b1 l 7",
		`{"id":"b1","Packs":[{"backup":"b1","name":"x","size":7}],"lineage":"l"}`: "b1 l 7",
		`{"packs":null,"id":"b1","lineage":"l"}` + "\n":                           "b1 l 0",
		`{}`: "  0",
		`{"id":"b1","packs":[{"backup":"../x","name":"x","size":7}],"lineage":"l"}`: "refused",
		`{"id":"b1","packs":[{"backup":"b1","name":"x","size":-7}],"lineage":"l"}`:  "refused",
		`{"id":"b1","packs":{},"lineage":"l"}`:                                      "refused",
		`{"id":"b1","packs":[],"lineage":"l"`:                                       "refused",
		`{"id":"b1","packs":[],"lineage":"l"} {}`:                                   "refused",
		`[]`: "refused",
		``:   "refused",
	} {
		header, got := Header{}, "refused"
		total := int64(0)
		rest, err := splitPacks(&allowance{from: strings.NewReader(text), total: 1 << 20}, func(pack *Pack) error {
			total += pack.Size
			return nil
		})
		if err == nil {
			must(t, json.Unmarshal(rest, &header))
			got = fmt.Sprintf("%s %s %d", header.ID, header.Lineage, total)
		}
		if got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// A store that says it took a manifest and has something else is found out before the backup counts.
type forgetful struct {
	objstore.Store
	keep func(body []byte) int // of a manifest; no byte that follows is what it was
}

func (s forgetful) Put(ctx context.Context, key string, body []byte, opts objstore.PutOptions) error {
	if strings.HasSuffix(key, "manifest.zst") {
		n := s.keep(body)
		damaged := bytes.Clone(body)
		for i := n; i < len(damaged); i++ {
			damaged[i] ^= 0xff
		}
		body, opts.CRC32C = damaged, nil
	}
	return s.Store.Put(ctx, key, body, opts)
}

func TestAManifestIsReadBackBeforeTheBackupCounts(t *testing.T) {
	for name, keep := range map[string]func([]byte) int{
		"nothing is kept":             func([]byte) int { return 0 },
		"a part of the header":        func([]byte) int { return 100 },
		"all but the end of the list": func(body []byte) int { return len(body) - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			store := forgetful{mem.New(), keep}
			if _, err := Write(t.Context(), store, source(t, store, pgdata(t)), Options{ID: "b1"}); err == nil {
				t.Error("the backup succeeded")
			}
			if _, err := Committed(t.Context(), store, testLineage, "b1"); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("the backup counts: %v", err)
			}
		})
	}
}

func TestTheHeaderOfALargeDatabaseStaysSmall(t *testing.T) {
	for _, tebibytes := range []int64{1, 5, 8, 12} {
		fit := Options{}.fit(tebibytes << 40)
		if packs := (tebibytes << 40) / fit.packSize; packs > 700_000 {
			t.Errorf("%d TiB have %d packs of %d MiB", tebibytes, packs, fit.packSize>>20)
		}
	}
}
