package generation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// Continue is Begin of a data generation that may have inherited its data: that stays, all else that a killed run left is removed.
func (v Volume) Continue(id string) (pgdata string, err error) {
	inherited, err := v.hasData(id)
	if err != nil || !inherited {
		return v.begin(id, err)
	}
	if _, err := v.Read(id); !errors.Is(err, ErrIncomplete) {
		return v.begin(id, nil) // which says why not
	}
	if _, _, err := WAL(v).pairedRoot(); err != nil {
		return "", err
	}
	children, err := os.ReadDir(v.Dir(id))
	if err != nil {
		return "", err
	}
	for _, child := range children {
		if child.Name() == data {
			continue
		}
		if err := os.RemoveAll(filepath.Join(v.Dir(id), child.Name())); err != nil {
			return "", err
		}
	}
	return v.PGData(id), syncPaths(v.Dir(id))
}

func (v Volume) begin(id string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return v.Begin(id)
}

// TakeOver makes the data directory of a copy that of id, which is not whole yet, and removes what is left of the copy, even if it
// is the current one. Nothing is copied. `current` goes first, then the copy is no longer whole, so nobody starts a server on
// what is being changed.
func (v Volume) TakeOver(id, from string) error {
	if now, err := v.Current(); err == nil && now == from {
		if err := v.removePointer(); err != nil {
			return err
		}
	}
	if err := moveData(v, id, []string{from}, from); err != nil {
		return err
	}
	if err := WAL(v).drop(id); err != nil {
		return err
	}
	return v.Remove(from)
}

func (v Volume) hasData(id string) (bool, error) {
	if err := checkID(id); err != nil {
		return false, err
	}
	info, err := os.Lstat(v.PGData(id))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// CanInherit says whether id of a volume has the data of the data generation before already, or finds some of it there, whole or not.
func CanInherit(v Volume, id, before string) (bool, error) {
	ids, err := v.IDsOf(before)
	if err != nil {
		return false, err
	}
	for _, from := range append([]string{id}, ids...) {
		if has, err := v.hasData(from); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// Inherit makes the data directory of a copy of the data generation before that of id, which is not whole yet, and removes all
// other copies. Nothing is copied. `current` goes first, then the copy is no longer whole, so nobody starts a server on what
// is being changed. Where a former run was killed amid this, copy may be empty: then id has the data already, or gets it from
// whichever copy still has some.
func (v Volume) Inherit(id, before, copy string) (removed []string, err error) {
	ids, err := v.IDsOf(before)
	if err != nil {
		return nil, err
	}
	if now, err := v.Current(); err == nil && slices.Contains(ids, now) {
		if err := v.removePointer(); err != nil {
			return nil, err
		}
	}
	has, err := v.hasData(id)
	if err == nil && !has {
		err = moveData(v, id, ids, copy)
	}
	if err == nil {
		err = WAL(v).drop(id)
	}
	if err != nil {
		return nil, err
	}
	return v.Release(before)
}

// moveData moves the data of the wanted copy, or of the first one that has any.
func moveData(v Volume, id string, ids []string, wanted string) error {
	for _, from := range append([]string{wanted}, ids...) {
		if !slices.Contains(ids, from) {
			continue
		}
		has, err := v.hasData(from)
		if err != nil {
			return err
		}
		if !has {
			continue
		}
		if err := v.unmark(from, file); err != nil {
			return err
		}
		if err := os.Rename(v.PGData(from), v.PGData(id)); err != nil {
			return err
		}
		return syncPaths(v.Dir(id), v.Dir(from))
	}
	return nil
}
