package rules

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestNoProgramIsCommitted: what a build makes belongs into build/, which git ignores.
func TestNoProgramIsCommitted(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == ".git" || path == "build" {
			return skip(entry, err)
		}
		if entry.Type().IsRegular() && beginsWith(root, path, "\x7fELF") {
			t.Errorf("%s is a program", filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func skip(entry fs.DirEntry, err error) error {
	if err == nil && entry.IsDir() {
		return fs.SkipDir
	}
	return err
}

func beginsWith(root fs.FS, path, magic string) bool {
	file, err := root.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	begin := make([]byte, len(magic))
	_, err = io.ReadFull(file, begin)
	return err == nil && string(begin) == magic
}
