package restore

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/background"
)

// read is what was read of a bucket, in the background.
type read[T any] struct {
	value T
	err   error
}

// look returns what the last read of what, for an object, has come to, and reads again if that is walInterval ago. False: nothing
// is there yet.
func look[T any](runner *background.Runner[read[T]], object client.Object, what string, work func(context.Context) (T, error)) (T, error, bool) { // error is the read's, not the call's
	found, done := runner.Do(object, what, walInterval, func(ctx context.Context) read[T] {
		value, err := work(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("not done after %s: %w", readLimit, err)
		}
		return read[T]{value, err}
	})
	return found.value, found.err, done
}
