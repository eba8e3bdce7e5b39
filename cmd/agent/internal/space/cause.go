package space

import (
	"fmt"
	"os"
	"path/filepath"
)

// Content is what a volume holds.
type Content int

// The contents.
const (
	Everything Content = iota
	Data               // WAL is on a volume of its own
	WALOnly
)

// Takers are what takes the space on a volume, in bytes.
type Takers struct {
	Holds Content
	Usage Usage
	WAL   int64
	// Unarchived is WAL that waits for the archive, and ArchiveError why.
	Unarchived   int64
	ArchiveError string
	// SlotHolder is who the most WAL is kept for, such as shop-2, and SlotBytes how much.
	SlotHolder string
	SlotBytes  int64
}

// Cause says in a sentence what takes the space: WAL that can't go, by what keeps it, or else the data.
func (t Takers) Cause() string {
	used := fmt.Sprintf("%s of %s are free", size(max(0, t.Usage.Free)), size(t.Usage.Total))
	much := t.Usage.Total / 10
	switch {
	case t.Unarchived >= much && t.Unarchived >= t.SlotBytes && t.ArchiveError != "":
		return fmt.Sprintf("%s, and %s of WAL wait for the archive, which fails: %s", used, size(t.Unarchived), t.ArchiveError)
	case t.Unarchived >= much && t.Unarchived >= t.SlotBytes:
		return fmt.Sprintf("%s, and %s of WAL wait for the archive, which is slower than the writers", used, size(t.Unarchived))
	case t.SlotBytes >= much && t.SlotHolder != "":
		return fmt.Sprintf("%s, and %s of WAL are kept for %s, which has not received it", used, size(t.SlotBytes), t.SlotHolder)
	}
	switch t.Holds {
	case Data:
		return fmt.Sprintf("%s; data takes %s", used, size(t.Usage.Used()))
	case WALOnly:
		return fmt.Sprintf("%s; WAL of the data in use takes %s, and all else %s", used, size(t.WAL), size(max(0, t.Usage.Used()-t.WAL)))
	}
	return fmt.Sprintf("%s; WAL takes %s, and data and all else %s", used, size(t.WAL), size(max(0, t.Usage.Used()-t.WAL)))
}

// size in words, rounded so that it doesn't change all the time.
func size(bytes int64) string {
	if bytes >= 10*gib {
		return fmt.Sprintf("%d GiB", bytes/gib)
	}
	if bytes >= gib {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/float64(gib))
	}
	if bytes >= 64*mib {
		return fmt.Sprintf("%d MiB", bytes/mib/16*16)
	}
	return fmt.Sprintf("%d MiB", bytes/mib)
}

// WAL is the size of all files in a pg_wal folder, and of those of them with these names.
func WAL(dir string, names []string) (all, named int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	for _, entry := range entries {
		info, err := os.Lstat(filepath.Join(dir, entry.Name()))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		all += info.Size()
		if wanted[entry.Name()] {
			named += info.Size()
		}
	}
	return all, named
}
