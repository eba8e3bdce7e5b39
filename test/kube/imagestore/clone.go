package imagestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"howdah.dev/test/kube/lockfile"
)

// Clone gives a node a copy of the template. Layers are hard links: containerd and overlayfs never write to them, and
// a link is a hundred times cheaper than an import. Databases are written to, and are copied.
// The copy appears under its name only when it is complete.
func (t Template) Clone(ctx context.Context, target string) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	release, err := t.lock(ctx, lockfile.Shared)
	if err != nil {
		return err
	}
	defer release()
	unfinished := target + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	err = filepath.WalkDir(t.root(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(t.root(), path)
		if err != nil {
			return err
		}
		return cloneEntry(path, filepath.Join(unfinished, relative), entry)
	})
	if err != nil {
		return fmt.Errorf("copy the image template: %w", err)
	}
	return os.Rename(unfinished, target)
}

func cloneEntry(from, to string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		return cloneFolder(from, to)
	case strings.HasSuffix(entry.Name(), ".db"):
		return copyFile(from, to)
	default:
		return os.Link(from, to)
	}
}

// cloneFolder makes a folder with the same owner, mode and extended attributes: it may be a part of an image.
func cloneFolder(from, to string) error {
	var info unix.Stat_t
	if err := unix.Lstat(from, &info); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := os.Lchown(to, int(info.Uid), int(info.Gid)); err != nil {
		return err
	}
	if err := unix.Chmod(to, info.Mode&0o7777); err != nil {
		return err
	}
	return copyAttributes(from, to)
}

// copyAttributes copies what overlayfs notes on folders.
func copyAttributes(from, to string) error {
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(from, names)
	if errors.Is(err, unix.ENOTSUP) || n == 0 && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, 4096)
		size, err := unix.Lgetxattr(from, name, value)
		if err != nil {
			return err
		}
		if err := unix.Lsetxattr(to, name, value[:size], 0); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
