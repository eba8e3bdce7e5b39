// Package workdir makes folders for work that is thrown away, and removes those of calls that were killed.
package workdir

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const prefix = ".building-"

// abandonedAfter is when nobody can be at work in a folder any more.
const abandonedAfter = 3 * time.Hour

// Make makes a folder beside the results of the work, so that these can be renamed to their place.
func Make(parent string) (folder string, remove func(), err error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, err
	}
	if err := removeAbandoned(parent, time.Now()); err != nil {
		return "", nil, err
	}
	folder, err = os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", nil, err
	}
	// What is renamed from here is read by others, whatever their user is.
	if err := os.Chmod(folder, 0o755); err != nil {
		return "", nil, err
	}
	return folder, func() { _ = os.RemoveAll(folder) }, nil
}

func removeAbandoned(parent string, now time.Time) error {
	folders, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil || now.Sub(info.ModTime()) < abandonedAfter {
			continue
		}
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove what a killed call left: %w", err)
		}
	}
	return nil
}
