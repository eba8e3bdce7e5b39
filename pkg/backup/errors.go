package backup

import (
	"fmt"
	"strings"
)

// Error names the object and the file.
func (e *CorruptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: object %s", ErrCorrupt, e.Object)
	if e.File != "" {
		fmt.Fprintf(&b, ", needed for file %s", e.File)
	}
	b.WriteString(": " + e.Detail)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is makes it an ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap is the cause, such as objstore.ErrNotFound.
func (e *CorruptError) Unwrap() error { return e.Err }

// Error names the first page, and says how many there are.
func (e *DamageError) Error() string {
	if len(e.Pages) == 0 {
		return ErrDamagedPages.Error()
	}
	p := e.Pages[0]
	text := fmt.Sprintf("%v: block %d of %s fails its checksum", ErrDamagedPages, p.Block, p.File)
	if e.Count > 1 {
		text += fmt.Sprintf(", and %d more", e.Count-1)
	}
	return text
}

// Is makes it an ErrDamagedPages.
func (e *DamageError) Is(target error) bool { return target == ErrDamagedPages }
