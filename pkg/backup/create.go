package backup

import (
	"errors"
	"io/fs"
	"os"
)

// CreateFile writes a file that must not exist yet: whatever a manifest has put under its name, a link among it, is neither
// followed nor replaced.
func CreateFile(root *os.Root, name string, content []byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, madeMode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// ReplaceFile writes a file anew. What had its name, a link among it, is removed and not followed.
func ReplaceFile(root *os.Root, name string, content []byte) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return CreateFile(root, name, content)
}
