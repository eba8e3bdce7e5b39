package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

// Versions checks a store whose bucket keeps versions.
func Versions(t *testing.T, store objstore.Versioned) {
	t.Helper()
	if keeps, err := store.KeepsVersions(t.Context()); err != nil || !keeps {
		t.Fatalf("it keeps versions: %t, %v", keeps, err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, body := range []string{"first", "second one"} {
		must(store.Put(t.Context(), "v/a/b", []byte(body), objstore.PutOptions{}))
	}
	must(store.Delete(t.Context(), "v/a/b"))
	must(store.Put(t.Context(), "v/c", []byte("other"), objstore.PutOptions{}))
	must(store.Put(t.Context(), "w", []byte("elsewhere"), objstore.PutOptions{}))

	found := versions(t, store, "v/", "")
	var contents, marks []string
	for _, v := range found {
		if v.Deleted {
			marks = append(marks, v.Key)
			continue
		}
		body, err := store.GetVersion(t.Context(), v.Key, v.ID, 100)
		if err != nil || int64(len(body)) != v.Size || v.Modified.IsZero() {
			t.Errorf("%+v: %q, %v", v, body, err)
		}
		if _, err := store.GetVersion(t.Context(), v.Key, v.ID, v.Size-1); !errors.Is(err, objstore.ErrTooLarge) {
			t.Errorf("more than is wanted: %v", err)
		}
		part := make([]byte, 3)
		if n, err := store.ReadVersionAt(t.Context(), v.Key, v.ID, part, 1); err != nil || string(part[:n]) != string(body[1:4]) {
			t.Errorf("%+v from 1 on: %q, %v", v, part[:n], err)
		}
		contents = append(contents, fmt.Sprintf("%s=%s %t", v.Key, body, v.Latest))
	}
	slices.Sort(contents)
	if got := strings.Join(contents, ", "); got != "v/a/b=first false, v/a/b=second one false, v/c=other true" {
		t.Errorf("the versions are %s", got)
	}
	if fmt.Sprint(marks) != "[v/a/b]" {
		t.Errorf("deleted are %v", marks)
	}
	if !slices.IsSortedFunc(found, func(a, b objstore.Version) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("not in order: %+v", found)
	}
	if rest := versions(t, store, "v/", "v/a/b"); len(rest) != 1 || rest[0].Key != "v/c" {
		t.Errorf("after a key: %+v", rest)
	}
	must(store.Delete(t.Context(), "v/c", "w"))
}

func versions(t *testing.T, store objstore.Versioned, prefix, after string) (all []objstore.Version) {
	t.Helper()
	for v, err := range store.Versions(t.Context(), prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}
