package backup

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestAManifestIsReadAsItWasWritten(t *testing.T) {
	want := sampleManifest()
	object, err := encodeManifest(want)
	must(t, err)
	got, err := decodeManifest(object)
	must(t, err)
	if got.list.size == 0 || got.list.stored == 0 {
		t.Errorf("a reader doesn't know how long the list of files is: %d bytes, %d stored", got.list.size, got.list.stored)
	}
	want.list, want.packBytes = got.list, got.packBytes
	want.packCount = got.packCount
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAManifestThatContradictsItselfIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"a path that leads out":     func(m *Manifest) { m.Files[1].Path = "../etc/passwd" },
		"an absolute path":          func(m *Manifest) { m.Files[1].Path = "/etc/passwd" },
		"the folder itself":         func(m *Manifest) { m.Files[0].Path = "." },
		"an unknown kind":           func(m *Manifest) { m.Files[0].Kind = "fifo" },
		"parts that overlap":        func(m *Manifest) { m.Files[1].Parts[1].FileOffset = 9 },
		"a part beyond the end":     func(m *Manifest) { m.Files[1].Parts[1].FileOffset = 13 },
		"a part outside its frame":  func(m *Manifest) { m.Files[1].Parts[0].Skip = 21 },
		"a frame outside its pack":  func(m *Manifest) { m.Files[1].Parts[0].Frame.Offset = 990 },
		"a pack that isn't listed":  func(m *Manifest) { m.Files[1].Parts[0].Frame.Pack = 1 },
		"a raw frame of other size": func(m *Manifest) { m.Files[1].Parts[1].Frame.Stored = 7 },
		"a pack with a bad name":    func(m *Manifest) { m.Packs[0].Name = "../x" },
		"too few files":             func(m *Manifest) { m.Totals.Files = 2 },
		"a later format":            func(m *Manifest) { m.Format = FormatVersion + 1 },
		"encryption":                func(m *Manifest) { m.Encryption = "aes" },
	} {
		t.Run(name, func(t *testing.T) {
			m := sampleManifest()
			change(m)
			object, err := encodeManifest(m)
			must(t, err)
			if _, err := decodeManifest(object); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestABackupOfALaterVersionIsToldFromADamagedOne(t *testing.T) {
	store := mem.New()
	m := sampleManifest()
	m.Encryption = "aes-256-gcm"
	object, err := encodeManifest(m)
	must(t, err)
	must(t, store.Put(t.Context(), "lineages/"+testLineage+"/backups/b1/manifest.zst", object, objstore.PutOptions{}))
	if _, err := ReadManifest(t.Context(), store, testLineage, "b1"); !errors.Is(err, ErrFormat) || errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestAHeaderLongerThanTheFirstReadIsReadWhole(t *testing.T) {
	store := mem.New()
	m := sampleManifest()
	// Random bytes in base 64 don't compress well.
	m.BackupLabel = string(randomText(200 << 10))
	object, err := encodeManifest(m)
	must(t, err)
	must(t, store.Put(t.Context(), "lineages/"+testLineage+"/backups/b1/manifest.zst", object, objstore.PutOptions{}))
	header, err := ReadHeader(t.Context(), store, testLineage, "b1")
	must(t, err)
	if header.BackupLabel != m.BackupLabel {
		t.Error("the label differs")
	}
}

func randomText(n int) []byte {
	b := randomBytes(n, 3)
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return b
}

func TestNamesThatCanNotBeKeysAreRefused(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", ".hidden", strings.Repeat("x", 200), "a b"} {
		if _, err := ReadManifest(t.Context(), mem.New(), testLineage, name); err == nil || errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestFramesHoldSmallFilesTogetherAndLargeOnesInAlignedRuns(t *testing.T) {
	file := func(path string, size int64) *entry {
		return &entry{File: File{Path: path, Kind: Regular, Size: size}}
	}
	entries := []*entry{file("a", 100), file("b", 0), file("c", 200), file("d", 2500), file("e", 10), file(controlFile, 50)}
	var got []string
	for job := range frameJobs(entries, 1000) {
		text := ""
		for _, s := range job {
			text += s.file.Path + "@" + strings.Repeat("+", int(s.offset/1000)) + " "
		}
		got = append(got, strings.TrimSpace(text))
	}
	want := []string{"a@ c@", "d@", "d@+", "d@++ e@"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheMemoryLimitIsDividedSoThatItHolds(t *testing.T) {
	for _, test := range []struct {
		limit   int64
		workers int
		total   int64
	}{{0, 4, 1 << 30}, {0, 64, 1 << 30}, {64 << 20, 4, 1 << 30}, {256 << 20, 8, 1 << 50}, {32 << 20, 1, 1 << 20}} {
		s := Options{MemoryLimit: test.limit, Workers: test.workers}.fit(test.total)
		limit := test.limit
		if limit == 0 {
			limit = defaultMemory
		}
		used := int64(s.workers)*(s.frame*5/2+encoderMemory) + int64(s.buffers)*s.packSize
		if used > limit || s.buffers < 2 || s.workers < 1 {
			t.Errorf("%+v gives %+v, which is %d", test, s, used)
		}
	}
}

// TestNamesThatNoClusterHasAreRefused: they are shown in messages and kept in memory for each backup.
func TestNamesThatNoClusterHasAreRefused(t *testing.T) {
	leaveOutForRaces(t)
	for name, change := range map[string]func(*Cluster, string){
		"name": func(c *Cluster, s string) { c.Name = s }, "namespace": func(c *Cluster, s string) { c.Namespace = s },
		"uid": func(c *Cluster, s string) { c.UID = s }, "instance": func(c *Cluster, s string) { c.Instance = s },
		"generation": func(c *Cluster, s string) { c.Generation = s },
	} {
		for length, refused := range map[int]bool{253: false, 254: true, 1 << 20: true} {
			m := sampleManifest()
			change(&m.Cluster, strings.Repeat("x", length))
			object, err := encodeManifest(m)
			must(t, err)
			if _, err := decodeManifest(object); (err != nil) != refused {
				t.Errorf("%s of %d bytes: %v", name, length, err)
			}
		}
	}
}

// TestTextsAndTimesThatReadersCouldNotShowAreRefused: whoever can write to a bucket that is neither encrypted nor signed chooses them.
func TestTextsAndTimesThatReadersCouldNotShowAreRefused(t *testing.T) {
	late := time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -12*60*60))
	for name, change := range map[string]func(*Header){
		"a name that steers a terminal":     func(h *Header) { h.Cluster.Name = "shop\x1b[2J" },
		"a version of two lines":            func(h *Header) { h.PGVersion = "17\nok" },
		"a type with another direction":     func(h *Header) { h.Type = "full\u202e" },
		"a parent with NUL":                 func(h *Header) { h.Parent = "a\x00" },
		"an end that no status can have":    func(h *Header) { h.StopTime = late },
		"a begin that no status can have":   func(h *Header) { h.StartTime = late },
		"a lock of which no status can say": func(h *Header) { h.Locked = &Locked{Until: late} },
	} {
		m := sampleManifest()
		change(&m.Header)
		object, err := encodeManifest(m)
		must(t, err)
		if _, err := decodeManifest(object); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	m := sampleManifest()
	m.PGVersion = "17.5 (Debian 17.5-1.pgdg120+1)"
	object, err := encodeManifest(m)
	must(t, err)
	if _, err := decodeManifest(object); err != nil {
		t.Error(err)
	}
}

// TestPathsThatNoFileHasAreRefused: controllers copy them into the status of a Backup and of a Restore.
func TestPathsThatNoFileHasAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Header, string){
		"a damaged page": func(h *Header, s string) { h.Damage = &Damage{Count: 1, Pages: DamagedPages{{File: s}}} },
		"a locked one":   func(h *Header, s string) { h.Locked = &Locked{Object: s} },
	} {
		for length, refused := range map[int]bool{4096: false, 4097: true, 100 << 10: true} {
			m := sampleManifest()
			change(&m.Header, strings.Repeat("x", length))
			object, err := encodeManifest(m)
			must(t, err)
			if _, err := decodeManifest(object); (err != nil) != refused {
				t.Errorf("%s with %d bytes: %v", name, length, err)
			}
		}
	}
}
