// Package walvolume gives the data volume of a test a WAL volume: a folder on another file system where there is one, so that what can't be renamed or
// linked across volumes can't be here either.
package walvolume

import (
	"os"
	"path/filepath"
	"testing"
)

// Beside makes the WAL volume of a data volume, and returns its path. It can be taken away, and another one be made.
func Beside(t testing.TB, volume string) string {
	t.Helper()
	parent := "/dev/shm"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "wal-volume")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := Path(volume)
	if err := os.RemoveAll(path); err != nil { // the link to another one
		t.Fatal(err)
	}
	if err := os.Symlink(dir, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// With is a data volume that has a WAL volume, at a path that need not exist yet.
func With(t testing.TB, volume string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(volume), 0o700); err != nil {
		t.Fatal(err)
	}
	Beside(t, volume)
	return volume
}

// Path is where the WAL volume of a data volume is mounted.
func Path(volume string) string { return volume + "-wal" }
