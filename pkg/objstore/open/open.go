// Package open opens a store by its configuration. It is the only package that knows all drivers.
package open

import (
	"context"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/minio"
	"howdah.dev/howdah/pkg/objstore/readonly"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/objstore/s3"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// Open returns the store that config describes, with retries that outlast a short outage of the
// server. It doesn't connect: a wrong endpoint or key shows at the first operation. Only a bad
// configuration is an error (objstore.ErrConfig).
func Open(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	return With(ctx, config, retry.Policy{})
}

// With is Open with retries of one's own.
func With(ctx context.Context, config objstore.Config, policy retry.Policy) (objstore.Store, error) {
	driver, err := Plain(ctx, config)
	if err != nil {
		return nil, err
	}
	opened := Sealed(retry.New(driver, policy), config.Encryption)
	if config.ReadOnly {
		return readonly.New(opened), nil
	}
	return opened, nil
}

// Sealed encrypts what goes to a store. Without encryption it refuses a repository that is encrypted.
func Sealed(store objstore.Store, encryption *objstore.Encryption) objstore.Store {
	switch {
	case encryption == nil:
		return sealed.NewGuard(store)
	case encryption.Entries != nil:
		return sealed.New(store, func() (sealed.Keys, error) {
			return sealed.ParseKeys(encryption.Entries, encryption.Key)
		}, sealed.Options{Memory: encryption.Memory})
	}
	return sealed.New(store, sealed.Folder(encryption.KeysDir, encryption.Key), sealed.Options{Memory: encryption.Memory})
}

// Plain returns the store without retries and without encryption: for checks that want a quick answer.
func Plain(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Driver == objstore.DriverMinIO {
		return minio.Open(ctx, config)
	}
	return s3.Open(ctx, config)
}
