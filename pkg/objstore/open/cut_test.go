//go:build s3

package open_test

import (
	"bytes"
	"errors"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

// cutOnce is a store on a real server whose first request to put something breaks after a part of the body. The server notices when the
// relay breaks the connection.
func cutOnce(t *testing.T, driver string) (objstore.Store, *storetest.Relay) {
	relay, config := storetest.NewRelay(t, storetest.Server(t, driver))
	relay.Spoil(func(r storetest.Request) storetest.Fault {
		if r.Number == 1 {
			return storetest.Fault{LateIn: 3 << 20}
		}
		return storetest.Fault{}
	})
	return plain(t, config), relay
}

func TestABodyThatIsCutOffIsNotStored(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			store, relay := cutOnce(t, driver)
			err := store.Put(t.Context(), "cut", make([]byte, 5<<20), objstore.PutOptions{})
			if !errors.Is(err, objstore.ErrUnavailable) {
				t.Errorf("the put ended with %v", err)
			}
			relay.BreakLate()
			if info, err := store.Stat(t.Context(), "cut"); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("there is an object of %d bytes: %v", info.Size, err)
			}
		})
	}
}

func TestABodyThatIsCutOffReplacesNothingThatWasPutSince(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			plain, relay := cutOnce(t, driver)
			store, body := retry.New(plain, retry.Policy{}), bytes.Repeat([]byte("whole"), 1<<20)
			if err := store.Put(t.Context(), "cut", body, objstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			relay.BreakLate()
			there, err := store.Get(t.Context(), "cut", int64(len(body)))
			if err != nil || !bytes.Equal(there, body) {
				t.Errorf("there are %d bytes instead of %d: %v", len(there), len(body), err)
			}
		})
	}
}
