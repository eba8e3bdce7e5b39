package sealed

import (
	"fmt"
	"testing"

	"howdah.dev/howdah/pkg/objstore/storetest"
)

// TestAnEndlessListOfDataKeysIsCutOff: each entry of it would be read, and kept.
func TestAnEndlessListOfDataKeysIsCutOff(t *testing.T) {
	_, inner := sealedMem(t)
	put(t, New(inner, Fixed(one(t)), Options{}), "o", nil)
	endless := &storetest.Endless{Store: inner, Prefix: Prefix, Most: 3_000_000, Key: func(number int) string {
		return fmt.Sprintf("%s%016x/k1", Prefix, number)
	}}
	if _, err := New(endless, Fixed(one(t)), Options{}).Get(t.Context(), "o", 10); err == nil {
		t.Error("it was opened")
	}
	if endless.Asked > 100_000 {
		t.Errorf("%d entries were read", endless.Asked)
	}
}
