package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// directWrites is the flag with which a file is written past the page cache.
const directWrites = unix.O_DIRECT

// shareBlocks lets target have the same blocks as source, until one of them is written to.
func shareBlocks(target, source *os.File) error {
	return unix.IoctlFileClone(int(target.Fd()), int(source.Fd()))
}

// punchHole makes a range of a file zero without storing anything. The error is errors.ErrUnsupported where it can't.
func punchHole(file *os.File, from, to int64) error {
	return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

// SyncTree makes everything in and below a folder durable. A file system does that faster at once than for thousands of
// files one by one.
func SyncTree(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(folder.Fd())), folder.Close())
}
