package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"howdah.dev/howdah/pkg/objstore"
)

type wantedKey struct{}

// Want says how much of the object that is asked for with this context is read at most. Of any other answer it is maxAnswer.
func Want(ctx context.Context, bytes int64) context.Context {
	return context.WithValue(ctx, wantedKey{}, bytes)
}

// wanted is how much of an answer is read at most.
func wanted(ctx context.Context) int64 {
	if bytes, set := ctx.Value(wantedKey{}).(int64); set {
		return max(bytes, maxAnswer)
	}
	return maxAnswer
}

// ReadWhole reads a body of the size that the server announced, if that is not over the limit.
func ReadWhole(body io.Reader, size, limit int64) ([]byte, error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: the server does not say how many bytes it sends", objstore.ErrTooLarge)
	}
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d expected", objstore.ErrTooLarge, size, limit)
	}
	content := make([]byte, size)
	n, err := io.ReadFull(body, content)
	return content[:n], Torn(err, size, int64(n))
}

// Torn tells apart why a read ended early: the object ends there (ErrTorn), or the connection broke.
// size is what the server announced, got what came.
func Torn(err error, size, got int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if got == size {
			return objstore.ErrTorn
		}
		return fmt.Errorf("the connection broke after %d of %d bytes: %w", got, size, io.ErrUnexpectedEOF)
	}
	return err
}
