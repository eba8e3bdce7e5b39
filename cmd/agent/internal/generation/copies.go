package generation

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A volume holds a data generation as its original, where it was made, or as a clone of another instance in a folder of
// its own, <data generation>.c<n>. All of these are copies of it.

// Marks are files beside generation.json.
const (
	// rewindingFile is there while a copy is being rewound: nobody may start a server on it.
	rewindingFile = "rewinding"
	// ranFile is there once data that ran gave way to another data generation. It holds a number: the highest of a data generation is of the
	// copy that ran last.
	ranFile = "ran"
	// replacedFile holds the time when a copy was first seen to be replaced by another one.
	replacedFile = "replaced"
)

// DataGeneration is the data generation that this is a copy of.
func (g Generation) DataGeneration() string { return cmp.Or(g.Of, g.ID) }

// Resolve finds the copy of a data generation to run: the one that `current` points at if it is one, else the one that ran when the data generation
// gave way to another, else the newest clone, as it was made because what was there before was unfit, else the original. A copy that is being rewound is found
// too; see Rewinding. Errors: ErrName, ErrNotFound, the latter with ErrIncomplete where there is half of one, and ErrDamaged: an older copy
// must not take the place of one that ran last and can't be read, nor any where `current` can't be.
func (v Volume) Resolve(wanted string) (Generation, error) {
	if err := checkID(wanted); err != nil {
		return Generation{}, err
	}
	switch id, err := v.Current(); {
	case err == nil:
		g, err := v.Read(id)
		switch {
		case err == nil && g.DataGeneration() == wanted:
			return g, nil
		case isCopy(id, wanted) && unreadable(err):
			return Generation{}, err
		}
	case !errors.Is(err, ErrNotFound):
		return Generation{}, fmt.Errorf("%w: which copy of the data ran last is not known: %w", ErrDamaged, err)
	}
	if id, err := lastRun(v, wanted); id != "" || err != nil {
		return readIfThere(v, id, err)
	}
	copies, err := v.copies(wanted)
	if err != nil {
		return Generation{}, err
	}
	if len(copies) > 0 {
		return copies[len(copies)-1], nil
	}
	_, missing := v.Read(wanted)
	switch {
	case unreadable(missing):
		return Generation{}, missing
	case errors.Is(missing, ErrIncomplete):
		return Generation{}, fmt.Errorf("%w: %w", ErrNotFound, missing)
	}
	return Generation{}, fmt.Errorf("%w: %s", ErrNotFound, wanted)
}

func readIfThere(v Volume, id string, err error) (Generation, error) {
	if err != nil {
		return Generation{}, err
	}
	return v.Read(id)
}

// leave notes that a copy has run, before another data generation takes its place. A clone that was made meanwhile may not have.
func leave(v Volume, id, next string) error {
	other, err := v.Read(next)
	if err != nil {
		return err
	}
	if g, err := v.Read(id); err == nil && g.DataGeneration() != other.DataGeneration() { // one that can't be read doesn't run
		latest, _, err := runs(v, g.DataGeneration())
		if err != nil {
			return err
		}
		return v.mark(id, ranFile, []byte(strconv.Itoa(latest+1)))
	}
	return nil
}

// lastRun is the copy of a data generation that ran last before another one took its place; empty: none that is known of.
func lastRun(v Volume, wanted string) (string, error) {
	_, id, err := runs(v, wanted)
	return id, err
}

// runs finds the highest number of the copies of a data generation that have run.
func runs(v Volume, of string) (latest int, copyID string, err error) {
	ids, err := v.ids()
	if err != nil {
		return 0, "", err
	}
	for _, id := range ids {
		if !isCopy(id, of) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(v.Dir(id), ranFile))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		number, errNumber := strconv.Atoi(strings.TrimSpace(string(content)))
		if err = errors.Join(err, errNumber); err != nil {
			return 0, "", fmt.Errorf("%w: which copy of data generation %s ran last is not known: %w", ErrDamaged, of, err)
		}
		if number > latest {
			latest, copyID = number, id
		}
	}
	return latest, copyID, nil
}

// unreadable is an error that doesn't say that there is nothing, or only half of something.
func unreadable(err error) bool {
	return err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrIncomplete)
}

// isCopy says by its name whether an id is that of a copy of a data generation.
func isCopy(id, wanted string) bool { return id == wanted || copyNumber(id, wanted) > 0 }

// Original says whether the copy that Resolve finds is the original. One that a clone has replaced counts no more: it
// was unfit to follow.
func (v Volume) Original(wanted string) bool {
	g, err := v.Resolve(wanted)
	return err == nil && g.ID == wanted && g.Origin != Clone
}

// Whole says whether there is a copy that a server may be started on.
func (v Volume) Whole(wanted string) bool {
	g, err := v.Resolve(wanted)
	return err == nil && !v.Rewinding(g.ID)
}

// NextCopy is the name for a new clone: one after all that there are, whole or not.
func (v Volume) NextCopy(wanted string) (string, error) {
	ids, err := v.ids()
	if err != nil {
		return "", err
	}
	last := 0
	for _, id := range ids {
		last = max(last, copyNumber(id, wanted))
	}
	return fmt.Sprintf("%s.c%d", wanted, last+1), nil
}

// copyNumber is the n of <wanted>.c<n>, and 0 of any other name.
func copyNumber(id, wanted string) int {
	digits, found := strings.CutPrefix(id, wanted+".c")
	n, err := strconv.Atoi(digits)
	if !found || err != nil {
		return 0
	}
	return n
}

func (v Volume) readCurrent() (Generation, error) {
	id, err := v.Current()
	if err != nil {
		return Generation{}, err
	}
	return v.Read(id)
}

// AllCopies are the whole copies of all data generations on a volume. It is an error that one can't be read: who has to decide by them would take it for
// gone. One without its WAL is not whole.
func AllCopies(v Volume) ([]Generation, error) {
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	var found []Generation
	for _, id := range ids {
		g, err := v.Read(id)
		if unreadable(err) && !errors.Is(err, ErrNoWAL) {
			return nil, err
		}
		if err == nil {
			found = append(found, g)
		}
	}
	return found, nil
}

// copies are all whole copies of a data generation, the newest last.
func (v Volume) copies(of string) ([]Generation, error) {
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	var found []Generation
	for _, id := range ids {
		g, err := v.Read(id)
		switch {
		case unreadable(err) && isCopy(id, of):
			return nil, err
		case err == nil && g.DataGeneration() == of:
			found = append(found, g)
		}
	}
	slices.SortStableFunc(found, func(a, b Generation) int {
		return cmp.Or(cmp.Compare(copyNumber(a.ID, of), copyNumber(b.ID, of)), a.CreatedAt.Compare(b.CreatedAt))
	})
	return found, nil
}

// BeginRewind forbids to start a server on a copy until EndRewind: one that is half rewound looks fit and is not. A
// copy that is found so after a crash has to be cloned anew.
func (v Volume) BeginRewind(id string) error { return v.mark(id, rewindingFile, nil) }

// EndRewind makes the rewound copy durable and allows to start it.
func (v Volume) EndRewind(id string) error {
	if err := Sync(v, id); err != nil {
		return err
	}
	return v.unmark(id, rewindingFile)
}

// Rewinding says that the copy must not be started. Where that can't be found out it must not either.
func (v Volume) Rewinding(id string) bool {
	_, err := os.Lstat(filepath.Join(v.Dir(id), rewindingFile))
	return !errors.Is(err, os.ErrNotExist)
}

func (v Volume) mark(id, name string, content []byte) error {
	if err := checkID(id); err != nil {
		return err
	}
	return WriteFile(filepath.Join(v.Dir(id), name), content, fileMode)
}

func (v Volume) unmark(id, name string) error {
	if err := checkID(id); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(v.Dir(id), name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncPaths(v.Dir(id))
}

// RemoveOldCopies removes the other copies of the data generation that `current` is a copy of, once they have been
// replaced for so long, and returns what it removed. The time counts from the first call that finds a copy replaced.
// Zero removes them at once. It never removes keep, the current copy, or anything of another data generation.
func (v Volume) RemoveOldCopies(keep string, olderThan time.Duration, now time.Time) ([]string, error) {
	current, err := v.readCurrent()
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids, err := v.IDsOf(current.DataGeneration())
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, id := range ids {
		if _, err := v.Read(id); id == keep || id == current.ID || err != nil && !errors.Is(err, ErrDamaged) {
			continue
		}
		since, err := v.replacedAt(id, now)
		if err != nil {
			return removed, err
		}
		if now.Sub(since) < olderThan {
			continue
		}
		if err := v.Remove(id); err != nil {
			return removed, err
		}
		removed = append(removed, id)
	}
	return removed, WAL(v).removeUnpaired(olderThan, now)
}

// Release removes every copy of a data generation, whole or not, and returns what it removed. ErrCurrent: a server may run
// on one of them, so nothing was removed.
func (v Volume) Release(unwanted string) ([]string, error) {
	ids, err := v.IDsOf(unwanted)
	if err != nil {
		return nil, err
	}
	current, err := v.readCurrent()
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err == nil && current.DataGeneration() == unwanted {
		return nil, fmt.Errorf("%w: %s", ErrCurrent, unwanted)
	}
	for i, id := range ids {
		if err := v.Remove(id); err != nil {
			return ids[:i], err
		}
	}
	return ids, nil
}

// Abandon is Release of a data generation even if it is the current one; `current` goes first, so nobody starts a server
// on what is left of it.
func (v Volume) Abandon(unwanted string) ([]string, error) {
	ids, err := v.IDsOf(unwanted)
	if err != nil {
		return nil, err
	}
	if now, err := v.Current(); err == nil && slices.Contains(ids, now) {
		if err := v.removePointer(); err != nil {
			return nil, err
		}
	}
	return v.Release(unwanted)
}

// Used are the bytes that all copies of a data generation take on the data volume.
func (v Volume) Used(by string) (int64, error) { return used(v, by, v.Dir) }

// used are the bytes in a folder of each copy of a data generation.
func used(v Volume, by string, dir func(string) string) (int64, error) {
	ids, err := v.IDsOf(by)
	var total int64
	for _, id := range ids {
		bytes, err := diskUsage(dir(id))
		if err != nil {
			return 0, err
		}
		total += bytes
	}
	return total, err
}

// IDsOf are the copies of a data generation, whole or not.
func (v Volume) IDsOf(wanted string) ([]string, error) {
	if err := checkID(wanted); err != nil {
		return nil, err
	}
	ids, err := v.ids()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, id := range ids {
		if g, err := v.Read(id); isCopy(id, wanted) || err == nil && g.DataGeneration() == wanted {
			found = append(found, id)
		}
	}
	return found, nil
}

// replacedAt reads when a copy was found replaced; where that is not noted yet it is now.
func (v Volume) replacedAt(id string, now time.Time) (time.Time, error) {
	content, err := os.ReadFile(filepath.Join(v.Dir(id), replacedFile))
	if err == nil {
		if at, err := time.Parse(time.RFC3339, string(content)); err == nil && !at.After(now) { // unless the clock was set back
			return at, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return time.Time{}, err
	}
	return now, v.mark(id, replacedFile, []byte(now.UTC().Format(time.RFC3339)))
}

func (v Volume) removePointer() error {
	if err := os.Remove(filepath.Join(string(v), pointer)); err != nil {
		return err
	}
	return syncPaths(string(v))
}
