// Package open opens a store by its configuration. It is the only package that knows all drivers.
package open

import (
	"context"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
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

// Sealed encrypts or signs what goes to a store. Without keys it refuses a repository that has them.
func Sealed(store objstore.Store, encryption *objstore.Encryption) objstore.Store {
	if encryption == nil {
		return sealed.NewGuard(store)
	}
	source := sealed.Folder(encryption.KeysDir, encryption.Key)
	if encryption.Entries != nil {
		source = func() (sealed.Keys, error) { return sealed.ParseKeys(encryption.Entries, encryption.Key) }
	}
	return sealed.New(store, source, sealed.Options{Memory: encryption.Memory, Sign: encryption.Sign, Either: encryption.Either})
}

// Plain returns the store without retries and without encryption: for checks that want a quick answer.
func Plain(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	driver, err := versioned(ctx, config)
	if err != nil || config.AsOf == nil {
		return driver, err
	}
	return asof.New(driver, *config.AsOf), nil
}

func versioned(ctx context.Context, config objstore.Config) (objstore.Versioned, error) {
	if config.Driver == objstore.DriverMinIO {
		return minio.Open(ctx, config)
	}
	return s3.Open(ctx, config)
}
