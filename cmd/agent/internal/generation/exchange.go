package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Exchange puts the folder of by in the place of that of id, which becomes that of aside. None of them is whole. A call that was interrupted is
// completed by CompleteExchange.
func Exchange(v Volume, id, by, aside string) error {
	if err := CompleteExchange(v, id, by, aside); err != nil {
		return err
	}
	for _, name := range []string{id, by} {
		if _, err := v.Read(name); !errors.Is(err, ErrIncomplete) {
			return fmt.Errorf("exchange %s and %s: %w", id, by, errors.Join(err, fmt.Errorf("%s is not an incomplete data generation", name)))
		}
	}
	if taken, err := there(v, aside); err != nil || taken {
		return errors.Join(err, fmt.Errorf("exchange %s and %s: %s is in the way", id, by, aside))
	}
	if err := rename(v, id, aside); err != nil {
		return err
	}
	return CompleteExchange(v, id, by, aside)
}

// CompleteExchange does what an Exchange that was interrupted has left to do, if there was one: then id has no folder.
func CompleteExchange(v Volume, id, by, aside string) error {
	if err := errors.Join(checkID(id), checkID(by), checkID(aside)); err != nil {
		return err
	}
	inPlace, errID := there(v, id)
	replaced, errAside := there(v, aside)
	if err := errors.Join(errID, errAside); err != nil || inPlace || !replaced {
		return err
	}
	from := by
	if made, err := there(v, by); err != nil {
		return err
	} else if !made {
		from = aside // there is nothing else
	}
	return rename(v, from, id)
}

func there(v Volume, id string) (bool, error) {
	_, err := os.Lstat(v.Dir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// rename is durable once it returns.
func rename(v Volume, from, to string) error {
	if err := os.Rename(v.Dir(from), v.Dir(to)); err != nil {
		return err
	}
	return syncPaths(filepath.Dir(v.Dir(to)))
}
