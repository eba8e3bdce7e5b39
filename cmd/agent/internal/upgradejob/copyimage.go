package upgradejob

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// CopyImage copies what programs of PostgreSQL need from the root of an image, where Kubernetes can't mount one image in a pod of another.
// It may be run again after any failure. What may not be read is left out: nothing that PostgreSQL needs is.
func CopyImage(root, to string) error {
	folders, err := neededFolders(root)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := copyFolder(filepath.Join(root, folder), filepath.Join(to, folder)); err != nil {
			return fmt.Errorf("copy /%s of the old image: %w", folder, err)
		}
	}
	return nil
}

// neededFolders are relative to the root, each once and by its real name: /lib may be a link to /usr/lib.
func neededFolders(root string) (folders []string, err error) {
	for _, pattern := range slices.Concat([]string{"usr/lib/postgresql", "usr/share/postgresql", "usr/lib/locale"}, libraryFolders) {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				continue // a link whose target is missing here
			}
			folder, err := filepath.Rel(root, real)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
	}
	return folders, nil
}

func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type() == fs.ModeSymlink:
			leads, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return link(leads, target)
		case entry.Type().IsRegular():
			return copyFile(path, target, entry)
		}
		return nil
	})
}

func copyFile(path, target string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	from, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm()|0o200) // so that it can be copied again
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
