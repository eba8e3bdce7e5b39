// Package readonly is a Store that nothing can be written to or deleted from.
package readonly

import (
	"context"
	"fmt"

	"howdah.dev/howdah/pkg/objstore"
)

// Store passes reads on.
type Store struct{ objstore.Store }

// New wraps a store.
func New(store objstore.Store) Store { return Store{Store: store} }

func refuse(op, key string) error {
	return &objstore.Error{Op: op, Key: key, Kind: objstore.ErrReadOnly, Err: fmt.Errorf("spec.readOnly of the BackupRepository is true")}
}

// Put refuses.
func (Store) Put(_ context.Context, key string, _ []byte, _ objstore.PutOptions) error {
	return refuse("put", key)
}

// Delete refuses, unless there is nothing to delete.
func (Store) Delete(_ context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return refuse("delete", keys[0])
}

// Locks can be read.
func (s Store) Locks() objstore.Locker { return locks{s.Store.Locks()} }

type locks struct{ objstore.Locker }

// Lock refuses.
func (locks) Lock(_ context.Context, key string, _ objstore.Lock) error { return refuse("lock", key) }
