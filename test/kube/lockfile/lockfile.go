// Package lockfile keeps calls of one program from working on the same thing at once.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/test/kube/command"
)

// Mode is who may hold a lock at the same time.
type Mode int

// The modes of a lock.
const (
	Exclusive Mode = unix.LOCK_EX
	Shared    Mode = unix.LOCK_SH
)

// retryEvery is how often a taken lock is tried: whoever holds it works for seconds.
const retryEvery = 100 * time.Millisecond

// Acquire takes the lock of a file, waiting for it until the context ends; waiting is called once if it has to.
// It ends with release, or with this process however that ends.
func Acquire(ctx context.Context, path string, mode Mode, waiting func()) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	said := false
	err = command.Until(ctx, retryEvery, "the lock "+path, func(context.Context) (bool, error) {
		err := unix.Flock(int(file.Fd()), int(mode)|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err == nil, err
		}
		if !said {
			waiting()
			said = true
		}
		return false, nil
	})
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return func() { file.Close() }, nil
}
