package lockfile

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestALockIsHeldByOneOrSharedByReaders(t *testing.T) {
	tests := map[string]struct {
		first, second Mode
		waits         bool
	}{
		"two writers":           {Exclusive, Exclusive, true},
		"a reader and a writer": {Shared, Exclusive, true},
		"a writer and a reader": {Exclusive, Shared, true},
		"two readers":           {Shared, Shared, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "folder", "lock")
			release, err := Acquire(t.Context(), path, test.first, func() { t.Error("waits for nobody") })
			if err != nil {
				t.Fatal(err)
			}
			said := 0
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			second, err := Acquire(short, path, test.second, func() { said++ })
			if test.waits != errors.Is(err, context.DeadlineExceeded) || test.waits != (said == 1) {
				t.Fatalf("got %v, said %d times", err, said)
			}
			if err == nil {
				second()
			}
			release()
			third, err := Acquire(t.Context(), path, Exclusive, func() { t.Error("nobody holds it any more") })
			if err != nil {
				t.Fatal(err)
			}
			third()
		})
	}
}
