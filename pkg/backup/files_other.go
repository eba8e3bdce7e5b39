//go:build !linux

package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// directWrites is no flag at all: here every write goes through the page cache.
const directWrites = 0

// shareBlocks is only known of Linux; elsewhere every file is written.
func shareBlocks(_, _ *os.File) error { return errors.ErrUnsupported }

// punchHole is only known of Linux; elsewhere zeros are written.
func punchHole(_ *os.File, _, _ int64) error { return errors.ErrUnsupported }

// SyncTree makes everything in and below a folder durable, file by file: only Linux can sync a whole file system and say
// when that is done.
func SyncTree(path string) error {
	path, err := filepath.EvalSymlinks(path) // the walk follows none
	if err != nil {
		return err
	}
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
}
