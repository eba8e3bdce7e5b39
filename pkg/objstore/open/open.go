// Package open opens a store by its configuration. It is the only package that knows all drivers.
package open

import (
	"context"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/minio"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/objstore/s3"
)

// Open returns the store that config describes, with retries that outlast a short outage of the
// server. It doesn't connect: a wrong endpoint or key shows at the first operation. Only a bad
// configuration is an error (objstore.ErrConfig).
func Open(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	driver, err := Plain(ctx, config)
	if err != nil {
		return nil, err
	}
	return retry.New(driver, retry.Policy{}), nil
}

// Plain returns the store without retries: for checks that want a quick answer.
func Plain(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Driver == objstore.DriverMinIO {
		return minio.Open(ctx, config)
	}
	return s3.Open(ctx, config)
}
