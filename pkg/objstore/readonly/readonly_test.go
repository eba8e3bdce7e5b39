package readonly

import (
	"errors"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestWhatIsReadOnlyIsReadAndNothingElse(t *testing.T) {
	inner := mem.New()
	if err := inner.Put(t.Context(), "a", []byte("x"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	store := New(inner)
	if err := store.Put(t.Context(), "b", nil, objstore.PutOptions{}); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("put: %v", err)
	}
	if err := store.Delete(t.Context(), "a"); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("delete: %v", err)
	}
	if got, err := store.Get(t.Context(), "a", 9); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}
