package generation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked is a generation that another process works on.
var ErrLocked = errors.New("data generation is in use by another process")

const lockFile = "agent.lock"

// Lock makes the caller the only one that runs a server on the generation. The lock lasts as long as the returned file
// is open here or in any process that inherited it; so whoever starts a server hands the file down to it, and no
// orphan of that server can meet the next one. Close it to give up one's own share.
func (v Volume) Lock(id string) (*os.File, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(v.Dir(id), lockFile), os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, id)
		}
		return nil, fmt.Errorf("lock data generation %s: %w", id, err)
	}
	return f, nil
}
