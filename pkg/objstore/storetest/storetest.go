// Package storetest is the conformance suite of objstore.Store: every driver and wrapper passes it.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

// Run checks a store. It works below the folder of a random name, and removes what it put.
func Run(t *testing.T, store objstore.Store) {
	s := &suite{store: store, prefix: fmt.Sprintf("storetest-%x/", rand.Uint64())}
	t.Cleanup(s.cleanUp(t))
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"what was put is read back", s.putAndGet},
		{"an object larger than the limit is refused", s.limit},
		{"a range is read, and its end is noticed", s.ranges},
		{"what isn't there is ErrNotFound", s.missing},
		{"a put replaces what was there", s.replace},
		{"a put with IfAbsent is refused when the key is taken", s.ifAbsent},
		{"of many conditional puts at once exactly one succeeds", s.race},
		{"a list is whole and in order", s.list},
		{"a list of more than one page can begin anywhere", s.manyKeys},
		{"folders are listed without what is in them", s.folders},
		{"deleting is idempotent and takes many keys", s.delete},
		{"odd names are names", s.names},
		{"large objects go in parallel", s.large},
		{"a context that ended ends the operation", s.cancelled},
	} {
		t.Run(test.name, test.run)
	}
}

type suite struct {
	store  objstore.Store
	prefix string
}

func (s *suite) key(name string) string { return s.prefix + name }

func (s *suite) cleanUp(t *testing.T) func() {
	return func() {
		ctx := context.WithoutCancel(t.Context())
		var keys []string
		for info, err := range s.store.List(ctx, s.prefix, "") {
			if err != nil {
				t.Errorf("clean up: %v", err)
				return
			}
			keys = append(keys, info.Key)
		}
		if err := s.store.Delete(ctx, keys...); err != nil {
			t.Errorf("clean up: %v", err)
		}
	}
}

func (s *suite) put(t *testing.T, name string, body []byte) {
	t.Helper()
	if err := s.store.Put(t.Context(), s.key(name), body, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) expect(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := s.store.Get(t.Context(), s.key(name), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes %.40q, want %d bytes %.40q", len(got), got, len(want), want)
	}
}

func wantError(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %v, want %v", err, kind)
	}
}

func (s *suite) putAndGet(t *testing.T) {
	for _, size := range []int{0, 1, 100_000} {
		body := noise(size)
		s.put(t, "a/object", body)
		s.expect(t, "a/object", body)
		info, err := s.store.Stat(t.Context(), s.key("a/object"))
		if err != nil || info.Size != int64(size) || info.Key != s.key("a/object") || info.Modified.IsZero() {
			t.Errorf("stat says %+v, %v", info, err)
		}
	}
}

func (s *suite) limit(t *testing.T) {
	s.put(t, "limited", noise(1000))
	if _, err := s.store.Get(t.Context(), s.key("limited"), 1000); err != nil {
		t.Error(err)
	}
	_, err := s.store.Get(t.Context(), s.key("limited"), 999)
	wantError(t, err, objstore.ErrTooLarge)
}

func (s *suite) ranges(t *testing.T) {
	body := noise(1000)
	s.put(t, "ranged", body)
	for _, test := range []struct{ off, size, want int }{
		{0, 1000, 1000}, {0, 1, 1}, {999, 1, 1}, {500, 100, 100}, {10, 0, 0},
		{900, 200, 100}, {0, 1001, 1000}, {1000, 1, 0}, {5000, 10, 0},
	} {
		p := make([]byte, test.size)
		n, err := s.store.ReadAt(t.Context(), s.key("ranged"), p, int64(test.off))
		if n != test.want || (err != nil) != (n < test.size) {
			t.Errorf("%d bytes at %d: %d, %v", test.size, test.off, n, err)
			continue
		}
		if n < test.size {
			wantError(t, err, objstore.ErrTorn)
		}
		if n > 0 && !bytes.Equal(p[:n], body[test.off:test.off+n]) {
			t.Errorf("%d bytes at %d are wrong", test.size, test.off)
		}
	}
	s.put(t, "nothing", nil)
	_, err := s.store.ReadAt(t.Context(), s.key("nothing"), make([]byte, 5), 0)
	wantError(t, err, objstore.ErrTorn)
}

func (s *suite) missing(t *testing.T) {
	_, err := s.store.Get(t.Context(), s.key("nowhere"), 10)
	wantError(t, err, objstore.ErrNotFound)
	_, err = s.store.ReadAt(t.Context(), s.key("nowhere"), make([]byte, 1), 0)
	wantError(t, err, objstore.ErrNotFound)
	_, err = s.store.Stat(t.Context(), s.key("nowhere"))
	wantError(t, err, objstore.ErrNotFound)
	for info, err := range s.store.List(t.Context(), s.key("nowhere"), "") {
		t.Errorf("listed %+v, %v", info, err)
	}
}

func (s *suite) replace(t *testing.T) {
	s.put(t, "replaced", noise(5000))
	s.put(t, "replaced", []byte("short"))
	s.expect(t, "replaced", []byte("short"))
}

func (s *suite) ifAbsent(t *testing.T) {
	once := objstore.PutOptions{IfAbsent: true}
	if err := s.store.Put(t.Context(), s.key("once"), []byte("first"), once); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.store.Put(t.Context(), s.key("once"), []byte("second"), once), objstore.ErrExists)
	wantError(t, s.store.Put(t.Context(), s.key("once"), []byte("first"), once), objstore.ErrExists)
	s.expect(t, "once", []byte("first"))
	if err := s.store.Delete(t.Context(), s.key("once")); err != nil {
		t.Fatal(err)
	}
	if err := s.store.Put(t.Context(), s.key("once"), []byte("third"), once); err != nil {
		t.Errorf("after the delete: %v", err)
	}
}

func (s *suite) race(t *testing.T) {
	for round := range 5 {
		key := s.key(fmt.Sprintf("race-%d", round))
		won, winner := atomic.Int32{}, atomic.Int32{}
		var writers sync.WaitGroup
		for writer := range 8 {
			writers.Go(func() {
				body := bytes.Repeat([]byte{byte('a' + writer)}, 10_000)
				err := s.store.Put(t.Context(), key, body, objstore.PutOptions{IfAbsent: true})
				switch {
				case err == nil:
					won.Add(1)
					winner.Store(int32(writer))
				case !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnavailable):
					t.Errorf("got %v", err)
				}
			})
		}
		writers.Wait()
		if won.Load() != 1 {
			t.Errorf("%d writers succeeded", won.Load())
			continue
		}
		got, err := s.store.Get(t.Context(), key, 1<<20)
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte('a' + winner.Load())}, 10_000)) {
			t.Errorf("the object isn't the winner's: %v", err)
		}
	}
}

func (s *suite) listed(t *testing.T, prefix, after string) []string {
	t.Helper()
	var names []string
	for info, err := range s.store.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, info.Key[len(s.prefix):])
	}
	return names
}

func (s *suite) list(t *testing.T) {
	for _, name := range []string{"l/b", "l/a", "l/a.x/y", "l/B", "l/a-", "l2/a"} {
		s.put(t, name, []byte(name))
	}
	for _, test := range []struct {
		prefix, after string
		want          []string
	}{
		{"l/", "", []string{"l/B", "l/a", "l/a-", "l/a.x/y", "l/b"}},
		{"l/a", "", []string{"l/a", "l/a-", "l/a.x/y"}},
		{"l/", "l/a", []string{"l/a-", "l/a.x/y", "l/b"}},
		{"l/", "l/a0", []string{"l/b"}},
		{"l/", "l/z", nil},
	} {
		after := test.after
		if after != "" {
			after = s.key(after)
		}
		if got := s.listed(t, s.key(test.prefix), after); !slices.Equal(got, test.want) {
			t.Errorf("list %q after %q: got %q, want %q", test.prefix, test.after, got, test.want)
		}
	}
	for info, err := range s.store.List(t.Context(), s.key("l/a.x/y"), "") {
		if err != nil || info.Size != 7 || info.Modified.IsZero() {
			t.Errorf("got %+v, %v", info, err)
		}
	}
}

// manyCount is more than two pages of S3.
const manyCount = 2100

func (s *suite) manyKeys(t *testing.T) {
	var writers sync.WaitGroup
	for writer := range 20 {
		writers.Go(func() {
			for i := writer; i < manyCount; i += 20 {
				if err := s.store.Put(t.Context(), s.key(fmt.Sprintf("many/%05d", i)), []byte("x"), objstore.PutOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	got := s.listed(t, s.key("many/"), "")
	if len(got) != manyCount || !slices.IsSorted(got) {
		t.Errorf("listed %d, sorted: %v", len(got), slices.IsSorted(got))
	}
	if got := s.listed(t, s.key("many/"), s.key("many/00999")); len(got) != manyCount-1000 || got[0] != "many/01000" {
		t.Errorf("listed %d after the first thousand", len(got))
	}
	stopped := 0
	for _, err := range s.store.List(t.Context(), s.key("many/"), "") {
		if err != nil {
			t.Fatal(err)
		}
		if stopped++; stopped == 3 {
			break
		}
	}
	keys := make([]string, manyCount)
	for i := range keys {
		keys[i] = s.key(fmt.Sprintf("many/%05d", i))
	}
	if err := s.store.Delete(t.Context(), keys...); err != nil {
		t.Error(err)
	}
	if left := s.listed(t, s.key("many/"), ""); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}

func (s *suite) folders(t *testing.T) {
	for _, name := range []string{"f/a/1", "f/a/2", "f/b/c/1", "f/file", "f/z/1"} {
		s.put(t, name, []byte("x"))
	}
	var got []string
	for name, err := range s.store.Folders(t.Context(), s.key("f/")) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	if want := []string{"a", "b", "z"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, err := range s.store.Folders(t.Context(), s.key("none/")) {
		t.Errorf("got %q, %v", name, err)
	}
}

func (s *suite) delete(t *testing.T) {
	s.put(t, "d/1", []byte("x"))
	s.put(t, "d/2", []byte("x"))
	for range 2 {
		if err := s.store.Delete(t.Context(), s.key("d/1"), s.key("d/never"), s.key("d/2")); err != nil {
			t.Error(err)
		}
	}
	if err := s.store.Delete(t.Context()); err != nil {
		t.Errorf("delete of nothing: %v", err)
	}
	if left := s.listed(t, s.key("d/"), ""); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func (s *suite) names(t *testing.T) {
	names := []string{"n/with space", "n/plus+and&", "n/ünï", "n/100%", "n/a=b,c;d", "n/0000000100000000000000AB.00000028.backup"}
	for _, name := range names {
		s.put(t, name, []byte(name))
		s.expect(t, name, []byte(name))
	}
	slices.Sort(names)
	if got := s.listed(t, s.key("n/"), ""); !slices.Equal(got, names) {
		t.Errorf("got %q, want %q", got, names)
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = s.key(name)
	}
	if err := s.store.Delete(t.Context(), keys...); err != nil {
		t.Error(err)
	}
	if left := s.listed(t, s.key("n/"), ""); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func (s *suite) large(t *testing.T) {
	const size, count = 12 << 20, 4
	body := noise(size)
	var workers sync.WaitGroup
	for i := range count {
		workers.Go(func() {
			key := s.key(fmt.Sprintf("large/%d", i))
			if err := s.store.Put(t.Context(), key, body, objstore.PutOptions{}); err != nil {
				t.Error(err)
				return
			}
			p := make([]byte, 4<<20)
			for off := 0; off < size; off += len(p) {
				n, err := s.store.ReadAt(t.Context(), key, p, int64(off))
				if err != nil || !bytes.Equal(p[:n], body[off:off+len(p)]) {
					t.Errorf("read at %d: %d, %v", off, n, err)
				}
			}
		})
	}
	workers.Wait()
}

func (s *suite) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.store.Put(ctx, s.key("cancelled"), []byte("x"), objstore.PutOptions{})
	wantError(t, err, context.Canceled)
	_, err = s.store.Get(ctx, s.key("cancelled"), 10)
	wantError(t, err, context.Canceled)
	listed := 0
	for _, err := range s.store.List(ctx, s.key(""), "") {
		wantError(t, err, context.Canceled)
		listed++
	}
	if listed != 1 {
		t.Errorf("the list yielded %d times", listed)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}
