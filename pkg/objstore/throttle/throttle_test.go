package throttle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func filled(t *testing.T, n int) (objstore.Store, []string) {
	t.Helper()
	store, keys := mem.New(), []string{}
	for i := range n {
		key := fmt.Sprintf("k%04d", i)
		if err := store.Put(t.Context(), key, nil, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return store, keys
}

func left(store objstore.Store) (n int) {
	for range store.List(context.Background(), "", "") {
		n++
	}
	return n
}

func TestManyObjectsAreDeletedAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := filled(t, 250)
		began := time.Now()
		if err := New(store, 1000).Delete(t.Context(), keys...); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 200*time.Millisecond || left(store) != 0 {
			t.Errorf("took %s, %d left", took, left(store))
		}
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := filled(t, 250)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := New(store, 1).Delete(ctx, keys...); !errors.Is(err, context.DeadlineExceeded) || left(store) != 150 {
			t.Errorf("got %v, %d left", err, left(store))
		}
	})
}
