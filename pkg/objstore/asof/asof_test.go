package asof_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

var begin = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// bucket is one with versions, whose clock advances by an hour with each change.
type bucket struct {
	*mem.Versioned
	t   *testing.T
	now time.Time
}

func newBucket(t *testing.T) *bucket {
	b := &bucket{t: t, now: begin}
	b.Versioned = mem.NewVersioned(func() time.Time { return b.now })
	return b
}

func (b *bucket) put(key, body string) {
	b.t.Helper()
	b.now = b.now.Add(time.Hour)
	if err := b.Put(b.t.Context(), key, []byte(body), objstore.PutOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bucket) delete(keys ...string) {
	b.t.Helper()
	b.now = b.now.Add(time.Hour)
	if err := b.Delete(b.t.Context(), keys...); err != nil {
		b.t.Fatal(err)
	}
}

// seen is what a store has, and what is in its folder f.
func (b *bucket) seen(at time.Time) string {
	b.t.Helper()
	store := asof.New(b, at)
	var all []string
	for info, err := range store.List(b.t.Context(), "", "") {
		if err != nil {
			b.t.Fatal(err)
		}
		body, err := store.Get(b.t.Context(), info.Key, 100)
		if err != nil || int64(len(body)) != info.Size {
			b.t.Fatalf("%s: %q, %v", info.Key, body, err)
		}
		all = append(all, info.Key+"="+string(body))
	}
	for name, err := range store.Folders(b.t.Context(), "f/") {
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, name+"/")
	}
	return strings.Join(all, " ")
}

func TestABucketIsSeenAsItWas(t *testing.T) {
	b := newBucket(t)
	b.put("a", "1")             // 6 o'clock
	b.put("f/x/1", "x")         // 7
	b.put("f/y/1", "y")         // 8
	b.put("a", "2")             // 9
	b.delete("a", "f/x/1", "z") // 10
	b.put("f/x/2", "new")       // 11
	b.put("a", "3")             // 12
	for hour, want := range map[int]string{
		5: "", 6: "a=1", 7: "a=1 f/x/1=x x/", 8: "a=1 f/x/1=x f/y/1=y x/ y/", 9: "a=2 f/x/1=x f/y/1=y x/ y/",
		10: "f/y/1=y y/", 11: "f/x/2=new f/y/1=y x/ y/", 12: "a=3 f/x/2=new f/y/1=y x/ y/", 99: "a=3 f/x/2=new f/y/1=y x/ y/",
	} {
		at := begin.Add(time.Duration(hour-5) * time.Hour)
		if got := b.seen(at); got != want {
			t.Errorf("at %d o'clock: %q, want %q", hour, got, want)
		}
		if got := b.seen(at.Add(time.Hour - 1)); got != want {
			t.Errorf("just before %d o'clock: %q, want %q", hour+1, got, want)
		}
	}
}

func TestDataKeysAreFoundAsTheyWereAndAsTheyAre(t *testing.T) {
	b := newBucket(t)
	b.put("keys/d1/old", "1")
	at := b.now
	b.put("keys/d1/new", "2")
	b.delete("keys/d1/old")
	if got := b.seen(at); got != "keys/d1/new=2 keys/d1/old=1" {
		t.Errorf("got %q", got)
	}
}

func TestThePastIsNotChanged(t *testing.T) {
	b := newBucket(t)
	b.put("a", "1")
	store := asof.New(b, b.now)
	if err := store.Put(t.Context(), "b", nil, objstore.PutOptions{}); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("put: %v", err)
	}
	if err := store.Delete(t.Context(), "a"); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("delete: %v", err)
	}
	if err := store.Delete(t.Context()); err != nil {
		t.Errorf("nothing to delete: %v", err)
	}
}

func TestWhatWasNotThereIsNotFound(t *testing.T) {
	b := newBucket(t)
	b.put("a/b", "1")
	store := asof.New(b, begin)
	for name, err := range map[string]error{
		"get":  second(store.Get(t.Context(), "a/b", 9)),
		"read": second(store.ReadAt(t.Context(), "a/b", make([]byte, 1), 0)),
		"stat": second(store.Stat(t.Context(), "a/b")), "a part of a key": second(asof.New(b, b.now).Stat(t.Context(), "a")),
	} {
		if !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// plain is a bucket without versions.
type plain struct{ *mem.Versioned }

func (plain) KeepsVersions(context.Context) (bool, error) { return false, nil }

func TestABucketWithoutVersionsIsRefused(t *testing.T) {
	store := asof.New(plain{mem.NewVersioned(time.Now)}, time.Now())
	if _, err := store.Get(t.Context(), "a", 1); !errors.Is(err, objstore.ErrConfig) || !strings.Contains(fmt.Sprint(err), "keeps no versions") {
		t.Errorf("got %v", err)
	}
	if slices.Collect(keysOf(store, t)) != nil {
		t.Error("something is listed")
	}
}

func keysOf(store objstore.Store, t *testing.T) func(func(string) bool) {
	return func(yield func(string) bool) {
		for info, err := range store.List(t.Context(), "", "") {
			if err == nil && !yield(info.Key) {
				return
			}
		}
	}
}

func TestTheStoreInMemoryKeepsVersions(t *testing.T) {
	storetest.Versions(t, mem.NewVersioned(time.Now))
}

func TestTheStoreInMemoryWithVersionsConforms(t *testing.T) {
	storetest.Run(t, mem.NewVersioned(time.Now))
}
