package sealed

import (
	"bytes"
	"errors"
	"testing"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

func signedOn(t testing.TB, inner objstore.Store) *Store {
	return New(inner, Fixed(one(t)), Options{Sign: true})
}

func TestASignedStoreConforms(t *testing.T) { storetest.Run(t, signedOn(t, mem.New())) }

func TestContentOfASignedRepositoryLiesThereAsItIs(t *testing.T) {
	inner, body := mem.New(), noise(1000)
	put(t, signedOn(t, inner), "o", body)
	if !bytes.Contains(get(t, inner, "o"), body) {
		t.Error("it is encrypted")
	}
	if marker, err := layout.ReadMarker(t.Context(), inner); err != nil || marker.Encryption != "" || marker.Authentication != layout.AuthenticationHMAC || marker.ID == "" {
		t.Errorf("the marker is %+v, %v", marker, err)
	}
}

// TestWhatHasNoValidSignatureIsNotRead: who can write to the bucket, and has no key, writes what they like.
func TestWhatHasNoValidSignatureIsNotRead(t *testing.T) {
	inner, body := mem.New(), noise(3*chunkSize)
	put(t, signedOn(t, inner), "o", body)
	honest := get(t, inner, "o")
	hostile := map[string][]byte{"nothing": {}, "content alone": body, "of another name": nil}
	for _, at := range []int{headerSize, headerSize + chunkSize + 5, len(honest) - 1, 16, 30, 50, 72} {
		changed := bytes.Clone(honest)
		changed[at] ^= 1
		hostile["changed at "+string(rune('a'+at%26))] = changed
	}
	swapped := append(bytes.Clone(honest[:headerSize]), honest[headerSize+stride:headerSize+2*stride]...)
	hostile["chunks in another order"] = append(append(swapped, honest[headerSize:headerSize+stride]...), honest[headerSize+2*stride:]...)
	for name, object := range hostile {
		key := "o"
		if object == nil {
			key, object = "p", honest
		}
		if err := inner.Put(t.Context(), key, object, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		store := signedOn(t, inner)
		if _, err := store.Get(t.Context(), key, 1<<40); !errors.Is(err, objstore.ErrCorrupt) && !errors.Is(err, ErrKeyNotFound) {
			t.Errorf("%s: got %v", name, err)
		}
		whole := make([]byte, len(body))
		if _, err := store.ReadAt(t.Context(), key, whole, 0); err == nil {
			t.Errorf("%s: a range of it is read", name)
		}
	}
}

// TestARepositoryIsOpenedOnlyAsWhatItIs: what the marker says comes from the bucket. It must not get an encrypted repository to be
// written in plain, nor a signed one to be read without a look at signatures.
func TestARepositoryIsOpenedOnlyAsWhatItIs(t *testing.T) {
	places := map[string]*mem.Store{"plain": mem.New(), "encrypted": mem.New(), "signed": mem.New()}
	as := func(kind string, inner objstore.Store) objstore.Store {
		switch kind {
		case "plain":
			return NewGuard(inner)
		case "either":
			return New(inner, Fixed(one(t)), Options{Either: true})
		}
		return New(inner, Fixed(one(t)), Options{Sign: kind == "signed"})
	}
	if _, err := layout.Ensure(t.Context(), places["plain"], clock()()); err != nil {
		t.Fatal(err)
	}
	for kind, inner := range places {
		put(t, as(kind, inner), "o", noise(10))
	}
	want := map[string]error{
		"plain as encrypted": ErrPlain, "plain as signed": ErrUnsigned, "plain as either": ErrPlain,
		"encrypted as plain": ErrKeyNotFound, "encrypted as signed": ErrUnsigned,
		"signed as plain": ErrKeyNotFound, "signed as encrypted": ErrPlain,
	}
	for found, inner := range places {
		for _, kind := range []string{"plain", "encrypted", "signed", "either"} {
			store := as(kind, inner)
			_, err := store.Get(t.Context(), "o", 100)
			if errPut := store.Put(t.Context(), "o2", nil, objstore.PutOptions{}); !errors.Is(errPut, want[found+" as "+kind]) {
				t.Errorf("%s as %s: a put says %v", found, kind, errPut)
			}
			if expected := want[found+" as "+kind]; !errors.Is(err, expected) || (err == nil) != (expected == nil) {
				t.Errorf("%s as %s: got %v, want %v", found, kind, err, expected)
			}
		}
	}
}

func BenchmarkPutSigned(b *testing.B) {
	inner := mem.New()
	store := signedOn(b, inner)
	put(b, store, "o", nil)
	store.inner = &sink{Store: inner}
	body := noise(benchSize)
	b.SetBytes(benchSize)
	defer cpu(b, benchSize)()
	for b.Loop() {
		put(b, store, "o", body)
	}
}
