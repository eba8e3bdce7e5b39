package sealed

import (
	"testing"

	"howdah.dev/howdah/pkg/backup/layout"
)

// Whoever reads may have a key with which nothing is to be written any more: a data key for it would be the first that an attacker needs.
func TestAReaderSaysSoWithoutAKeyOfItsOwn(t *testing.T) {
	store, inner := sealedMem(t)
	put(t, store, "lineages/x", []byte("sealed"))
	before := 0
	for _, err := range inner.List(t.Context(), Prefix, "") {
		if before++; err != nil {
			t.Fatal(err)
		}
	}
	other := New(inner, Fixed(keys(t, "k2", map[string][]byte{"k2": secret(2), "k1": secret(1)})), Options{})
	said, key := []byte(`{"reader":"r"}`), layout.ReaderKey("7-g1", "r")
	put(t, other, key, said)
	if got := get(t, inner, key); string(got) != string(said) {
		t.Errorf("in the bucket it is %q", got)
	}
	if got := get(t, store, key); string(got) != string(said) {
		t.Errorf("others read %q", got)
	}
	for info, err := range store.List(t.Context(), layout.AllReadersPrefix, "") {
		if err != nil || info.Size != int64(len(said)) {
			t.Errorf("it is listed as %+v, %v", info, err)
		}
	}
	after := 0
	for _, err := range inner.List(t.Context(), Prefix, "") {
		if after++; err != nil {
			t.Fatal(err)
		}
	}
	if after != before {
		t.Errorf("there are %d data keys, and were %d", after, before)
	}
	if err := store.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
	if _, err := inner.Stat(t.Context(), key); err == nil {
		t.Error("it stays")
	}
}
