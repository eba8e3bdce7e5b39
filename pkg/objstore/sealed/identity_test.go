package sealed

import (
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

// transplant copies what lies below some prefixes of one repository into another, over what is there.
func transplant(t *testing.T, from, to *mem.Store, prefixes ...string) {
	t.Helper()
	for _, prefix := range prefixes {
		for info, err := range from.List(t.Context(), prefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			if err := to.Put(t.Context(), info.Key, get(t, from, info.Key), objstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDataKeysAndObjectsOfAnotherRepositoryDoNotOpen: who can write to the bucket copies keys/ and lineages/ of another prefix, which
// has the same Secret.
func TestDataKeysAndObjectsOfAnotherRepositoryDoNotOpen(t *testing.T) {
	production, copied := newVault(t), newVault(t)
	put(t, production.open(), "lineages/a/x", noise(10))
	put(t, copied.open(), "lineages/b/x", noise(10))
	transplant(t, production.inner, copied.inner, Prefix, "lineages/")
	if got, err := copied.open().Get(t.Context(), "lineages/a/x", 100); err == nil {
		t.Errorf("what was moved from another repository is read as %d bytes", len(got))
	}
	get(t, copied.open(), "lineages/b/x")
	copied.rotate()
	put(t, copied.open(), "lineages/b/y", noise(10))
	if _, err := production.open().Get(t.Context(), "lineages/a/x", 100); err != nil {
		t.Error(err)
	}
}

// TestAWrapPlantedUnderTheNameOfTheCurrentKeyDoesNotStopARotation: who can write to the bucket knows what the next key is called.
func TestAWrapPlantedUnderTheNameOfTheCurrentKeyDoesNotStopARotation(t *testing.T) {
	v := newVault(t)
	put(t, v.open(), "o/old", noise(7))
	v.entries["k2"], v.current = secret(2), "k2"
	for info := range v.inner.List(t.Context(), Prefix, "") {
		planted := strings.Replace(string(get(t, v.inner, info.Key)), `"k1"`, `"k2"`, 1)
		planted = strings.ReplaceAll(planted, fingerprint(v.keys().byName["k1"]), fingerprint(v.keys().byName["k2"]))
		if err := v.inner.Put(t.Context(), strings.TrimSuffix(info.Key, "k1")+"k2", []byte(planted), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	v.rotate()
	delete(v.entries, "k1")
	v.rotate()
	v.expect("k2", "k2")
	get(t, v.open(), "o/old")
}

func (v *vault) keys() Keys { v.Helper(); return keys(v.T, v.current, v.entries) }
