package generation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteFile replaces a file in one step and makes it durable: a crash leaves the old content or the new one.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncPaths(filepath.Dir(path))
}

// syncPaths makes files or folders durable, in their order.
func syncPaths(paths ...string) error {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// syncFilesystem makes everything on the file system that holds path durable. Unlike a walk that syncs each file it
// needs no order, and costs little where the maker has synced already.
func syncFilesystem(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// diskUsage counts the bytes that the files below path take. Files that go away meanwhile count nothing.
func diskUsage(path string) (int64, error) {
	var total int64
	err := filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
			total += stat.Blocks * 512 // st_blocks counts in 512 bytes whatever the file system
		}
		return nil
	})
	return total, err
}

// Space is how many bytes the file system of the volume has, and how many of them are free for us.
func (v Volume) Space() (total, free int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(string(v), &stat); err != nil {
		return 0, 0, err
	}
	return int64(stat.Blocks) * stat.Bsize, int64(stat.Bavail) * stat.Bsize, nil
}

// SyncDir makes the names in a folder durable.
func SyncDir(path string) error { return syncPaths(path) }
