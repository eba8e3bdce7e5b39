package objstore_test

import (
	"errors"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
)

func TestAnObjectIsMissingIfItIsNotListedEither(t *testing.T) {
	store := mem.New()
	for _, key := range []string{"a/there", "a/therefore", "a/thesis/x"} {
		if err := store.Put(t.Context(), key, nil, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	notFound := &objstore.Error{Op: "get", Kind: objstore.ErrNotFound}
	proxy := fault.New(store, fault.Plan{Before: func(fault.Call) error { return notFound }})
	for name, test := range map[string]struct {
		store   objstore.Store
		key     string
		missing bool
	}{
		"it is listed":            {store, "a/there", false},
		"a longer name is listed": {store, "a/thes", true},
		"nothing is listed":       {store, "b", true},
		"lists are not found":     {proxy, "b", false},
	} {
		if err := objstore.Missing(t.Context(), test.store, test.key, notFound); err == nil || errors.Is(err, objstore.ErrNotFound) != test.missing {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := objstore.Missing(t.Context(), proxy, "b", objstore.ErrDenied); !errors.Is(err, objstore.ErrDenied) {
		t.Error(err)
	}
	if err := objstore.Missing(t.Context(), proxy, "b", nil); err != nil {
		t.Error(err)
	}
}
