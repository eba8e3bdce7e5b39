package watchdog

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LockMemory keeps what the watchdog uses in memory: a page that has to be read from a disk, as where the machine swaps or the disk that
// has the program hangs, could keep it from its work when that is due. Pages are locked when they are used first, which costs no more
// memory than is in use. An error is no reason to end: a container may have the right to lock little or nothing.
func LockMemory() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("the limit of locked memory: %w", err)
	}
	flags := unix.MCL_CURRENT | unix.MCL_ONFAULT
	if limit.Cur == unix.RLIM_INFINITY { // with a limit, memory that is mapped later could be refused
		flags |= unix.MCL_FUTURE
	}
	if err := unix.Mlockall(flags); err != nil {
		return fmt.Errorf("lock the memory, of which %d bytes may be locked: %w", limit.Cur, err)
	}
	return nil
}
