// Package space watches how full the volume of an instance is, and keeps a reserve on it that lets PostgreSQL recover, or
// shut down, once it is full.
package space

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// State says how full a volume is.
type State int

// The states.
const (
	Enough     State = iota
	AlmostFull       // a person is told
	Full             // a primary takes no writes
)

// Usage of a volume, in bytes. The reserve counts as free in none of them but Reserve.
type Usage struct {
	Total   int64 // of the file system, as far as it is ours
	Free    int64 // that anybody can have now
	Reserve int64 // that we hold back
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
	// segment of WAL, of the usual size.
	segment = 16 * mib
)

// reserveSize is what we hold back: three segments at least, as recovery ends with a checkpoint, and a server that archives
// begins another segment when it is shut down; but no more than an eighth.
func reserveSize(total int64) int64 { return min(max(total/100, 3*segment), 64*mib, total/8) }

// fullMark is how little space there is on a full volume: three segments or two percent, but a tenth at most.
func fullMark(total int64) int64 { return min(max(total/50, 3*segment), gib, total/10) }

// almostMark is the same of one that is almost full.
func almostMark(total int64) int64 { return max(min(total/10, 20*gib), 2*fullMark(total)) }

// Spare is what there would be for PostgreSQL with the whole reserve held back: negative once that is needed.
func (u Usage) Spare() int64 { return u.Free + u.Reserve - reserveSize(u.Total) }

// Used is what others than the reserve take.
func (u Usage) Used() int64 { return u.Total - u.Free - u.Reserve }

// Next is the state after the one before. The way back is longer than the way there, so that it doesn't flap.
func (u Usage) Next(before State) State {
	spare, full, almost := u.Spare(), fullMark(u.Total), almostMark(u.Total)
	switch {
	case u.Total <= 0:
		return before // it could not be looked at
	case spare < full, before == Full && spare < full+full/2:
		return Full
	case spare < almost, before != Enough && spare < almost+almost/5:
		return AlmostFull
	}
	return Enough
}

// recovery is what PostgreSQL needs to recover.
func recovery(total int64) int64 { return min(2*segment, total/8) }

// Tight says that PostgreSQL could not recover with what is free now.
func (u Usage) Tight() bool { return u.Total > 0 && u.Free < recovery(u.Total) }

// roomy says that the whole reserve can be held back without making the volume full.
func (u Usage) roomy() bool { return u.Spare() >= fullMark(u.Total) }

// Volume is a folder that is the root of a file system.
type Volume string

const reserveFile = "reserve"

func (v Volume) reserve() string { return filepath.Join(string(v), reserveFile) }

// Measure looks how full it is.
func (v Volume) Measure() (Usage, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(string(v), &stat); err != nil {
		return Usage{}, fmt.Errorf("look at the space on %s: %w", v, err)
	}
	u := Usage{Free: int64(stat.Bavail) * stat.Bsize}
	// What is kept for root is not there for us.
	u.Total = int64(stat.Blocks-stat.Bfree)*stat.Bsize + u.Free
	info, err := os.Stat(v.reserve())
	if err == nil {
		u.Reserve = info.Size()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Usage{}, err
	}
	return u, nil
}

// Hold holds the reserve back where there is room for it, and says whether it did more than before.
func (v Volume) Hold(u Usage) (bool, error) {
	size := reserveSize(u.Total)
	if u.Reserve >= size || !u.roomy() {
		return false, nil
	}
	file, err := os.OpenFile(v.reserve(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return false, fmt.Errorf("hold space back: %w", err)
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil {
		return false, errors.Join(fmt.Errorf("hold %d MiB back: %w", size/mib, err), v.Release())
	}
	return true, nil
}

// Lent is what Lend gives: enough for the configuration.
const Lent = 256 << 10

// Lend gives a small part of the reserve to whoever needs space first, as long as PostgreSQL could recover with the rest. It says whether it did.
func (v Volume) Lend(u Usage) (bool, error) {
	rest := u.Reserve - Lent
	if u.Total <= 0 || rest < recovery(u.Total) {
		return false, nil
	}
	if err := os.Truncate(v.reserve(), rest); err != nil {
		return false, fmt.Errorf("release a part of the reserve: %w", err)
	}
	return true, nil
}

// Release gives the reserve to whoever needs space.
func (v Volume) Release() error {
	if err := os.Remove(v.reserve()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the reserve: %w", err)
	}
	return nil
}
