// Package open opens a store by its configuration. It is the only package that knows all drivers.
package open

import (
	"context"
	"errors"

	"howdah.dev/howdah/pkg/objstore"
)

// Open returns the store that config describes, with retries. It doesn't connect: a wrong endpoint
// or key shows at the first operation. Only a bad configuration is an error (objstore.ErrConfig).
func Open(ctx context.Context, config objstore.Config) (objstore.Store, error) {
	return nil, errors.ErrUnsupported
}
