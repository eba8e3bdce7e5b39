package storetest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
)

// Sums checks that a store takes no body that is not what its checksum says, and leaves nothing of it. A wrapper that changes bodies
// has another checksum for them, and isn't checked by this.
func Sums(t *testing.T, store objstore.Store) {
	key, body := fmt.Sprintf("storetest-%x", rand.Uint64()), []byte("what was meant")
	sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	for _, ifAbsent := range []bool{true, false} {
		err := store.Put(t.Context(), key, []byte("what arrived.."), objstore.PutOptions{CRC32C: &sum, IfAbsent: ifAbsent})
		if !errors.Is(err, objstore.ErrUnavailable) {
			t.Errorf("another body: %v", err)
		}
		if _, err := store.Stat(t.Context(), key); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("it is there: %v", err)
		}
	}
	if err := store.Put(t.Context(), key, body, objstore.PutOptions{CRC32C: &sum}); err != nil {
		t.Errorf("the body itself: %v", err)
	}
	if err := store.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
}
