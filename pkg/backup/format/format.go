// Package format numbers the versions of the repository's format. There is one number for all objects: howdah.json,
// lineage.json, manifests, packs and WAL. Each object carries that of who wrote it, so objects of several versions may lie
// side by side, and a reader reads all versions from Oldest on.
//
// A version is frozen: what an object means never changes under its number. Whoever lets bytes mean something else, or
// writes what a reader of the present version would misread, increments Current, keeps what reads the previous versions,
// and adds a repository of the new one to test/golden. Only a field that a reader may ignore is added without a new number.
package format

import (
	"errors"
	"fmt"
)

const (
	// Current is what this code writes.
	//
	//	1  until MinLZ took the place of S2, and the number of its coding
	//	2  blocks of MinLZ; links and names are checked
	Current = 2
	// Oldest is the first version that this code reads. Of version 1 that is what was written since it has MinLZ.
	Oldest = 1
)

var (
	// ErrUnknown is a version that this code doesn't read.
	ErrUnknown = errors.New("unknown version of the format")
	// ErrLater is one that is later than Current. It is an ErrUnknown, too.
	ErrLater error = laterError{}
)

// laterError says only why the version is unknown.
type laterError struct{}

func (laterError) Error() string        { return "written by a later version of Howdah" }
func (laterError) Is(target error) bool { return target == ErrUnknown }

// Check refuses a version that this code doesn't read, with what a person can do about it.
func Check(version int) error {
	switch {
	case version > Current:
		return fmt.Errorf("%w: it has format %d, and this version reads formats %d to %d; use a version of Howdah that reads it",
			ErrLater, version, Oldest, Current)
	case version < Oldest:
		return fmt.Errorf("%w: it says format %d, and this version reads formats %d to %d", ErrUnknown, version, Oldest, Current)
	}
	return nil
}
