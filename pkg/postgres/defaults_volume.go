package postgres

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// VolumeParameters are good values for a server on a volume of this many bytes, with WAL segments of this many; zero is unknown. A person
// may override each.
func VolumeParameters(volume, segment int64) []Parameter {
	params := map[string]string{}
	if volume > 0 || segment > DefaultSegSize {
		most := maxWALSize(volume, segment)
		kept := max(min(80*mib, most/2), most/4) // recycled rather than created anew
		params["max_wal_size"], params["min_wal_size"] = whole(most), whole(max(kept, leastSegments*segment))
	}
	if volume > 0 {
		// A slot that nobody reads is given up; a full volume would stop the primary.
		params["max_slot_wal_keep_size"] = whole(max(volume/10*3, 64*mib))
		params["temp_file_limit"] = whole(max(volume/5, 64*mib)) // one query must not fill the volume
	}
	return ParameterList(params)
}

// WALVolumeParameters are good values for a server whose WAL is on a volume of its own, of this many bytes, with WAL segments of this many. They
// replace those of VolumeParameters. Nothing else fills that volume, so more may be retained for a slot.
func WALVolumeParameters(volume, segment int64) []Parameter {
	params := map[string]string{"max_slot_wal_keep_size": whole(max(volume/10*6, 64*mib))}
	for _, p := range VolumeParameters(volume, segment) {
		if p.Name == "max_wal_size" || p.Name == "min_wal_size" {
			params[p.Name] = p.Value
		}
	}
	return ParameterList(params)
}

// maxWALSize is how much WAL there may be between two checkpoints: a fifth of a small volume, PostgreSQL's own gigabyte where there is
// room for it, and a twentieth of a large one. More of it saves writing whole pages, and makes recovery longer.
func maxWALSize(volume, segment int64) int64 {
	most := clamp(volume/20, gib, 16*gib)
	if volume > 0 && volume < 5*gib {
		most = max(volume/5, 64*mib)
	}
	return max(most, 2*leastSegments*segment)
}

// whole writes bytes as MB, rounded down.
func whole(bytes int64) string { return size(bytes / mib * mib) }

// leastSegments are as many as max_wal_size and min_wal_size must have room for; PostgreSQL doesn't start with less.
const leastSegments = 2

// CheckSegments says in a sentence why a server with WAL segments of this many bytes would not start with these parameters, which
// PostgreSQL itself says only when it starts.
func CheckSegments(params map[string]string, segment int64) error {
	var errs []error
	for _, name := range []string{"max_wal_size", "min_wal_size"} {
		value, found := params[name]
		if bytes, err := parseSize(value, mib); found && err == nil && bytes < leastSegments*segment {
			errs = append(errs, fmt.Errorf("%w: %s is %s, and a segment of WAL has %d MB here: write at least %dMB", ErrParameter, name, value,
				segment/mib, leastSegments*segment/mib))
		}
	}
	return errors.Join(errs...)
}

// sizeUnits are those of postgresql.conf.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"kB", kib}, {"MB", mib}, {"GB", gib}, {"TB", 1 << 40}, {"B", 1}}

// parseSize reads a size as postgresql.conf has it; unit is that of a bare number. What it can't read is PostgreSQL's to judge.
func parseSize(value string, unit int64) (int64, error) {
	digits := strings.TrimSpace(value)
	for _, u := range sizeUnits {
		if rest, found := strings.CutSuffix(digits, u.name); found {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	return int64(n * float64(unit)), err
}

// SizeBytes reads a size of WAL as postgresql.conf has it; 0 where that is none.
func SizeBytes(value string) int64 {
	bytes, err := parseSize(value, mib)
	if err != nil || bytes < 0 {
		return 0
	}
	return bytes
}

// TwiceTheWAL is twice a max_wal_size, as postgresql.conf has it; empty: it can't be read.
func TwiceTheWAL(value string) string {
	bytes := SizeBytes(value)
	if bytes <= 0 {
		return ""
	}
	return whole(2 * bytes)
}

// ReplicationParameters are good values for a server of a cluster with replicas, on a volume of this many bytes; zero is
// unknown. A person may override each.
func ReplicationParameters(volume int64) []Parameter {
	params := map[string]string{
		// A dead primary is noticed in seconds, and looked for again at once. That a replica is dead is noticed as soon: it asks for that
		// when it connects.
		"wal_receiver_timeout":        "5s",
		"wal_retrieve_retry_interval": "500ms",
		// A primary that comes back is rewound from the last checkpoint that it has in common with the new one, which lies
		// before what the slots keep.
		"wal_keep_size": size(512 * mib),
	}
	if volume > 0 {
		// That checkpoint is at most max_wal_size back. On a small volume the archive has to help.
		params["wal_keep_size"] = whole(min(maxWALSize(volume, 0), max(volume/10, 16*mib)))
	}
	return ParameterList(params)
}
