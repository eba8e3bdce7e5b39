package backup

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"howdah.dev/howdah/pkg/backup/internal/codec"
)

const (
	// controlSize is that of the control file, of which PostgreSQL fills the beginning.
	controlSize = 8192
	// controlLeast and controlMost are where its checksum is looked for: the versions have it in different places.
	controlLeast, controlMost = 128, 1024
)

// readControl reads the control file until it has seen the same twice, so that it doesn't keep a half-written one.
func (c *copier) readControl(ctx context.Context, path string) ([]byte, error) {
	before, err := os.ReadFile(path)
	for range rereads {
		if err != nil {
			return nil, err
		}
		if err = pause(ctx, rereadPause); err != nil {
			return nil, err
		}
		var now []byte
		now, err = os.ReadFile(path)
		if string(now) == string(before) && (!c.checkControl || intactControl(now)) {
			return now, err
		}
		before = now
	}
	if err == nil && c.checkControl && !intactControl(before) {
		return nil, fmt.Errorf("%w: its checksum is wrong, and no server starts on it; look at the disk, and restore an earlier backup", ErrControl)
	}
	return before, err
}

// IntactControl says whether the content of global/pg_control is whole.
func IntactControl(content []byte) bool { return intactControl(content) }

// intactControl says whether the control file has its checksum: the CRC-32C of all before it.
func intactControl(content []byte) bool {
	if len(content) != controlSize {
		return false
	}
	for at := controlLeast; at < controlMost; at += 4 {
		if stored := binary.NativeEndian.Uint32(content[at:]); stored != 0 && codec.CRC(content[:at]) == stored {
			return true
		}
	}
	return false
}
