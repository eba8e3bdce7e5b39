package backup

import (
	"errors"
	"fmt"
)

const (
	// usualMemory is what the Job of a backup or of a verification may use by default, and usualFiles is what of it there is
	// room for beside its buffers: what is known of the files.
	usualMemory = 256 << 20
	usualFiles  = 80 << 20
	// bytesPerFile is what a file takes while it is backed up.
	bytesPerFile = 400
	// bytesPerPack is what a pack takes that a manifest names, and bytesPerOwnPack one that is written.
	bytesPerPack    = 256
	bytesPerOwnPack = 128
	// fewPacks are not worth a word.
	fewPacks = 1 << 16
)

// ErrMemory is a backup with more files and packs than the memory has room for. It is a *MemoryError.
var ErrMemory = errors.New("not enough memory")

// MemoryError says how much memory it takes.
type MemoryError struct {
	Files      int
	Packs      int
	Need, Have int64 // bytes
}

// Error is a sentence without its end.
func (e *MemoryError) Error() string {
	if e.Packs > fewPacks {
		return fmt.Sprintf("the database has %d files and a backup of it %d packs, which takes %d MiB of memory, and the limit is %d MiB",
			e.Files, e.Packs, e.Need>>20, e.Have>>20)
	}
	return fmt.Sprintf("the database has %d files, which takes %d MiB of memory, and the limit is %d MiB", e.Files, e.Need>>20, e.Have>>20)
}

// Is says that it is ErrMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// checkMemory refuses what would not fit: have is what the process may use, 0 if nothing bounds that, and known what it will
// know of files and packs. Who has less than usual has less room for them.
func checkMemory(have int64, files, packs int, known int64) error {
	if have == 0 || known <= min(usualFiles, have/16*5) {
		return nil
	}
	const unit = 16 << 20
	need := usualMemory + max(0, known-usualFiles)*5/4
	if need = (need + unit - 1) / unit * unit; need <= have {
		return nil
	}
	return &MemoryError{Files: files, Packs: packs, Need: need, Have: have}
}

// known is about how much memory the list of files and the packs take once they are read.
func (h *Header) known() int64 {
	return h.list.size*9/10 + h.list.stored + int64(h.packCount)*bytesPerPack
}

// BuffersFor is how much of its memory a process may take for its buffers, of which it takes usual ones where it has the memory that
// is usual, or more.
func BuffersFor(have, usual int64) int64 {
	if have == 0 || have >= usualMemory {
		return usual
	}
	return min(usual, have/8*3)
}

// CheckMemory says before a manifest is read whether it fits: have is what the process may use, in bytes, 0 if nothing bounds
// that.
func (h *Header) CheckMemory(have int64) error {
	return checkMemory(have, h.Totals.Files, h.packCount, h.known())
}

// PackBytes is how much the packs have that a header names, also where it was read without them.
func (h *Header) PackBytes() int64 {
	if h.Packs == nil {
		return h.packBytes
	}
	total := int64(0)
	for _, pack := range h.Packs {
		total += pack.Size
	}
	return total
}

// Brief is a header without what a restore needs: what is known of its cluster, and the packs.
func (h *Header) Brief() *Header {
	if h == nil {
		return nil
	}
	brief := *h
	brief.Packs, brief.BackupLabel, brief.TablespaceMap, brief.Cluster.Object, brief.Cluster.Secrets = nil, "", "", nil, nil
	if h.Locked != nil {
		brief.Locked = &Locked{Until: h.Locked.Until, Object: h.Locked.Object}
	}
	return &brief
}
