package sealed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// secret is an entry with a key that is made of one byte.
func secret(b byte) []byte {
	return []byte(hex.EncodeToString(bytes.Repeat([]byte{b}, keySize)) + "\n")
}

func keys(t testing.TB, current string, entries map[string][]byte) Keys {
	t.Helper()
	k, err := ParseKeys(entries, current)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func one(t testing.TB) Keys { return keys(t, "", map[string][]byte{"k1": secret(1)}) }

func sealedMem(t testing.TB) (*Store, *mem.Store) {
	inner := mem.New()
	return New(inner, Fixed(one(t)), Options{}), inner
}

func put(t testing.TB, store objstore.Store, key string, body []byte) {
	t.Helper()
	if err := store.Put(t.Context(), key, body, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, store objstore.Store, key string) []byte {
	t.Helper()
	body, err := store.Get(t.Context(), key, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

func TestASealedStoreConforms(t *testing.T) {
	store, _ := sealedMem(t)
	storetest.Run(t, store)
}

func TestASealedStoreWithLittleMemoryConforms(t *testing.T) {
	storetest.Run(t, New(mem.New(), Fixed(one(t)), Options{Memory: 1 << 20}))
}

func TestAGuardedStoreConforms(t *testing.T) { storetest.Run(t, NewGuard(mem.New())) }

func TestASealedStorePassesTheProbe(t *testing.T) {
	store, _ := sealedMem(t)
	findings, _ := objstore.Probe(t.Context(), store, "token")
	for _, finding := range findings {
		t.Errorf("%s: %s", finding.Ability, finding.Message)
	}
}

func TestRangesOfAnySizeAreReadOfObjectsOfAnySize(t *testing.T) {
	store, inner := sealedMem(t)
	for _, size := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3 * chunkSize, 5*chunkSize + 77} {
		key, body := fmt.Sprintf("o/%d", size), noise(size)
		put(t, store, key, body)
		for range 300 {
			off, n := rand.IntN(size+10), rand.IntN(size+chunkSize)
			reader := store
			if rand.IntN(2) == 0 {
				reader = New(inner, Fixed(one(t)), Options{}) // it knows no header
			}
			checkRange(t, reader, key, body, off, n)
		}
		checkRange(t, store, key, body, 0, size)
	}
}

func checkRange(t *testing.T, store objstore.Store, key string, body []byte, off, n int) {
	t.Helper()
	want := body[min(off, len(body)):min(off+n, len(body))]
	p := make([]byte, n)
	got, err := store.ReadAt(t.Context(), key, p, int64(off))
	if !bytes.Equal(p[:got], want) || (got < n) != errors.Is(err, objstore.ErrTorn) || (err != nil) != (got < n) {
		t.Fatalf("%s, %d bytes at %d: got %d, want %d, %v", key, n, off, got, len(want), err)
	}
}

func TestSizesAreThoseOfTheContent(t *testing.T) {
	for _, size := range []int64{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 7*chunkSize + 5, 32 << 20} {
		if got := contentSize(sealedSize(size)); got != size {
			t.Errorf("%d bytes are said to be %d", size, got)
		}
	}
}

func TestNothingOfTheContentIsInTheStore(t *testing.T) {
	store, inner := sealedMem(t)
	text := []byte(strings.Repeat("the secret of the shop ", 1000))
	put(t, store, "lineages/a/x", text)
	put(t, store, "lineages/a/y", text)
	seen := map[string]bool{}
	for info, err := range inner.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		body := get(t, inner, info.Key)
		if bytes.Contains(body, []byte("secret of the shop")) || bytes.Contains(body, bytes.Repeat([]byte{1}, 16)) {
			t.Errorf("%s shows what it holds", info.Key)
		}
		if len(body) > headerSize && strings.HasPrefix(info.Key, "lineages/") {
			seen[string(body[headerSize:headerSize+64])] = true
		}
	}
	if len(seen) != 2 {
		t.Error("the same content looks the same twice")
	}
}

// harms are what somebody or something may do to an object. They are found by whole reads and by ranges.
var harms = map[string]func(t *testing.T, inner *mem.Store){
	"a flipped bit in the first chunk": flip(headerSize + 5),
	"a flipped bit in the last tag":    flip(-1),
	"a flipped bit in the salt":        flip(50),
	"a flipped bit in the size":        flip(73),
	"another size, with a checksum":    forge(func(h *header) { h.size -= 3 }),
	"a larger size, with a checksum":   forge(func(h *header) { h.size += chunkSize }),
	"another salt, with a checksum":    forge(func(h *header) { h.salt[3]++ }),
	"cut in the last chunk":            cut(-10),
	"cut after a chunk":                cut(headerSize + 2*stride),
	"cut in the header":                cut(40),
	"no byte left":                     cut(0),
	"chunks in another order": change(func(b []byte) []byte {
		first := bytes.Clone(b[headerSize : headerSize+stride])
		copy(b[headerSize:], b[headerSize+stride:headerSize+2*stride])
		copy(b[headerSize+stride:], first)
		return b
	}),
	"another object under its name": func(t *testing.T, inner *mem.Store) { put(t, inner, "o/a", get(t, inner, "o/b")) },
	"a plain object under its name": func(t *testing.T, inner *mem.Store) { put(t, inner, "o/a", noise(3*chunkSize)) },
}

func change(do func([]byte) []byte) func(*testing.T, *mem.Store) {
	return func(t *testing.T, inner *mem.Store) { put(t, inner, "o/a", do(get(t, inner, "o/a"))) }
}

func flip(at int) func(*testing.T, *mem.Store) {
	return change(func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 4; return b })
}

func cut(at int) func(*testing.T, *mem.Store) {
	return change(func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		return b[:at]
	})
}

func forge(do func(*header)) func(*testing.T, *mem.Store) {
	return change(func(b []byte) []byte {
		h, _ := parseHeader(b)
		do(&h)
		return append(h.marshal(), b[headerSize:]...)
	})
}

func TestWhateverIsDoneToAnObjectIsFoundAndTheObjectNamed(t *testing.T) {
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			store, inner := sealedMem(t)
			put(t, store, "o/a", noise(3*chunkSize))
			put(t, store, "o/b", bytes.Repeat([]byte("b"), 3*chunkSize))
			harm(t, inner)
			fresh := New(inner, Fixed(one(t)), Options{})
			_, err := fresh.Get(t.Context(), "o/a", 1<<30)
			wantDamage(t, err)
			for _, reader := range []*Store{New(inner, Fixed(one(t)), Options{}), store} {
				var found error
				for off := 0; off < 3*chunkSize && found == nil; off += 10_000 {
					_, found = reader.ReadAt(t.Context(), "o/a", make([]byte, 10_000), int64(off))
				}
				wantDamage(t, found)
			}
		})
	}
}

func wantDamage(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, objstore.ErrCorrupt) || !strings.Contains(err.Error(), "o/a") {
		t.Errorf("got %v", err)
	}
}

func TestAnObjectThatWasReplacedByAnotherProcessIsReadAnew(t *testing.T) {
	store, inner := sealedMem(t)
	put(t, store, "o/a", noise(3*chunkSize))
	checkRange(t, store, "o/a", noise(3*chunkSize), 5, 100)
	put(t, New(inner, Fixed(one(t)), Options{}), "o/a", noise(2*chunkSize))
	checkRange(t, store, "o/a", noise(2*chunkSize), chunkSize+5, 100)
}

func TestKeysComeInHexadecimalAndBase64(t *testing.T) {
	key := noise(keySize)
	for _, text := range []string{
		hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), base64.StdEncoding.EncodeToString(key) + "\n",
		base64.RawStdEncoding.EncodeToString(key), base64.URLEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key),
	} {
		if got := keys(t, "", map[string][]byte{"2026-01": []byte(text)}); !bytes.Equal(got.byName["2026-01"], key) || got.Current() != "2026-01" {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestKeysThatCannotBeUsedAreRefusedInASentence(t *testing.T) {
	for name, test := range map[string]struct {
		entries map[string][]byte
		current string
		kind    error
		says    string
	}{
		"none":                     {nil, "", ErrKeyNotFound, "there is no encryption key"},
		"too short":                {map[string][]byte{"k1": []byte("abcd")}, "", ErrWrongKey, `"k1"`},
		"a password":               {map[string][]byte{"k1": []byte("correct horse battery staple 123")}, "", ErrWrongKey, "openssl rand -hex 32"},
		"a bad name":               {map[string][]byte{"-k": secret(1)}, "", ErrWrongKey, `"-k"`},
		"several, and none chosen": {map[string][]byte{"k1": secret(1), "k2": secret(2)}, "", ErrKeyNotFound, "k1, k2"},
		"one chosen that is not there": {
			map[string][]byte{"k1": secret(1), CurrentEntry: []byte("k3")}, "", ErrKeyNotFound, "key k3 does not exist; there are only k1"},
	} {
		_, err := ParseKeys(test.entries, test.current)
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheCurrentKeyIsTheOneOfTheSpecOrElseOfTheEntry(t *testing.T) {
	entries := map[string][]byte{"k1": secret(1), "k2": secret(2), CurrentEntry: []byte("k1\n")}
	if got := keys(t, "", entries).Current(); got != "k1" {
		t.Errorf("got %s", got)
	}
	if got := keys(t, "k2", entries).Current(); got != "k2" {
		t.Errorf("got %s", got)
	}
}

func TestKeysPrintAsTheirNames(t *testing.T) {
	k := one(t)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s", k, k, k, k), fmt.Sprintf("%v %#v", objstore.KeyEntries{"k1": secret(1)}, objstore.KeyEntries{"k1": secret(1)})} {
		if strings.Contains(text, "0101") || strings.Contains(text, "48, 49") || strings.Contains(text, "[1 1") {
			t.Errorf("printed %s", text)
		}
	}
}

func TestWhatDoesNotFitIsSaidBeforeAnythingIsWritten(t *testing.T) {
	mark := func(t *testing.T, store objstore.Store) {
		if _, err := layout.Ensure(t.Context(), store, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		make func(t *testing.T, inner objstore.Store)
		open func(t *testing.T, inner objstore.Store) objstore.Store
		kind error
		says []string
	}{
		"an encrypted repository without keys": {
			func(t *testing.T, inner objstore.Store) { mark(t, New(inner, Fixed(one(t)), Options{})) },
			func(_ *testing.T, inner objstore.Store) objstore.Store { return NewGuard(inner) },
			ErrKeyNotFound, []string{"spec.encryption.secretName"},
		},
		"a plain repository with keys": {
			func(t *testing.T, inner objstore.Store) { mark(t, NewGuard(inner)) },
			func(t *testing.T, inner objstore.Store) objstore.Store { return New(inner, Fixed(one(t)), Options{}) },
			ErrPlain, []string{"Use another prefix"},
		},
		"plain data without a marker, with keys": {
			func(t *testing.T, inner objstore.Store) { put(t, inner, "lineages/7-g1/lineage.json", nil) },
			func(t *testing.T, inner objstore.Store) objstore.Store { return New(inner, Fixed(one(t)), Options{}) },
			ErrPlain, []string{"Use another prefix"},
		},
		"another key of the same name": {
			func(t *testing.T, inner objstore.Store) { mark(t, New(inner, Fixed(one(t)), Options{})) },
			func(t *testing.T, inner objstore.Store) objstore.Store {
				return New(inner, Fixed(keys(t, "", map[string][]byte{"k1": secret(9)})), Options{})
			},
			ErrWrongKey, []string{"key k1 is not the one", fingerprint(bytes.Repeat([]byte{1}, 32)), fingerprint(bytes.Repeat([]byte{9}, 32))},
		},
		"other keys": {
			func(t *testing.T, inner objstore.Store) { mark(t, New(inner, Fixed(one(t)), Options{})) },
			func(t *testing.T, inner objstore.Store) objstore.Store {
				return New(inner, Fixed(keys(t, "k3", map[string][]byte{"k2": secret(2), "k3": secret(3)})), Options{})
			},
			ErrKeyNotFound, []string{"with key k1", "available: k2, k3"},
		},
		"data keys that were deleted": {
			func(t *testing.T, inner objstore.Store) {
				mark(t, New(inner, Fixed(one(t)), Options{}))
				for info := range inner.List(t.Context(), Prefix, "") {
					_ = inner.Delete(t.Context(), info.Key)
				}
			},
			func(t *testing.T, inner objstore.Store) objstore.Store { return New(inner, Fixed(one(t)), Options{}) },
			ErrKeyNotFound, []string{"they were deleted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := mem.New()
			test.make(t, inner)
			before := count(t, inner)
			store := test.open(t, inner)
			for op, err := range operations(t.Context(), store) {
				if !errors.Is(err, test.kind) {
					t.Errorf("%s: got %v", op, err)
					continue
				}
				for _, want := range test.says {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %q lacks %q", op, err, want)
					}
				}
			}
			if got := count(t, inner); got != before {
				t.Errorf("%d objects became %d", before, got)
			}
		})
	}
}

func count(t *testing.T, store objstore.Store) int {
	n := 0
	for _, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func operations(ctx context.Context, store objstore.Store) map[string]error {
	_, errGet := store.Get(ctx, "lineages/x", 1)
	_, errRead := store.ReadAt(ctx, "lineages/x", make([]byte, 1), 0)
	_, errStat := store.Stat(ctx, "lineages/x")
	var errList, errFolders error
	for _, errList = range store.List(ctx, "", "") {
		break
	}
	for _, errFolders = range store.Folders(ctx, "") {
		break
	}
	return map[string]error{
		"put": store.Put(ctx, "lineages/x", nil, objstore.PutOptions{}), "get": errGet, "read": errRead, "stat": errStat,
		"list": errList, "folders": errFolders, "delete": store.Delete(ctx, "lineages/x"), "unlock": Unlock(ctx, store),
	}
}

func TestOfManyThatBeginAtOnceAllGetOneRepository(t *testing.T) {
	inner := mem.New()
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			store := New(inner, Fixed(one(t)), Options{})
			if err := store.Put(t.Context(), fmt.Sprintf("o/%d", i), noise(i), objstore.PutOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	store := New(inner, Fixed(one(t)), Options{})
	for i := range 8 {
		if !bytes.Equal(get(t, store, fmt.Sprintf("o/%d", i)), noise(i)) {
			t.Errorf("object %d is another", i)
		}
	}
	marker, err := layout.Ensure(t.Context(), store, time.Now())
	if err != nil || marker.Encryption != layout.EncryptionAES {
		t.Errorf("got %+v, %v", marker, err)
	}
}

func TestWhatOpensTheOthersCannotBeDeletedOrReplaced(t *testing.T) {
	store, inner := sealedMem(t)
	put(t, store, "o/a", nil)
	for info := range inner.List(t.Context(), Prefix, "") {
		if store.Delete(t.Context(), "o/a", info.Key) == nil || store.Put(t.Context(), info.Key, nil, objstore.PutOptions{}) == nil {
			t.Errorf("%s was changed", info.Key)
		}
	}
	if err := store.Put(t.Context(), markerKey, []byte("{}"), objstore.PutOptions{}); !errors.Is(err, objstore.ErrExists) {
		t.Errorf("got %v", err)
	}
}
