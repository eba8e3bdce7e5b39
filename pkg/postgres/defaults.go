package postgres

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// DefaultParameters are good values for a server of this major with so much memory (bytes) and so
// many cores to itself. A person may override each. Zero memory or cores is unknown: PostgreSQL's
// own defaults stay.
func DefaultParameters(major int, memory int64, cores int) []Parameter {
	params := map[string]string{
		"archive_timeout": "1min", // bounds what a lost volume loses on a quiet server
		"huge_pages":      "off",  // "try" dies of SIGBUS where the node has some and the pod may not use them
		"log_checkpoints": "on",
		"log_lock_waits":  "on",
		// Room for replicas and their clones, as a change would take a restart.
		"max_replication_slots": number(replicationRoom),
		"max_wal_senders":       number(replicationRoom),
		// Volumes are solid-state or network disks: random reads cost little more than sequential ones.
		"random_page_cost": "1.1",
		// A client behind a dead node is noticed in about two minutes rather than two hours.
		"tcp_keepalives_count":    "6",
		"tcp_keepalives_idle":     "60",
		"tcp_keepalives_interval": "10",
		"timezone":                "UTC",
		"wal_level":               "replica",
	}
	if major < 18 { // 18 reads ahead by itself
		params["effective_io_concurrency"] = "200"
	}
	if major >= 17 {
		params["summarize_wal"] = "on" // an incremental backup reads in the summaries which blocks were changed
	}
	layers := [][]Parameter{ParameterList(params)}
	if memory > 0 {
		layers = append(layers, memoryParameters(memory))
	}
	if cores > 0 {
		layers = append(layers, coreParameters(cores))
	}
	return MergeParameters(layers...)
}

const replicationRoom = 20 // slots, and senders

// VolumeParameters are good values for a server on a volume of so many bytes, with WAL segments of so many; zero is unknown. A person
// may override each.
func VolumeParameters(volume, segment int64) []Parameter {
	least, most, kept := leastSegments*segment, int64(gib), int64(80*mib) // the latter are PostgreSQL's own
	if volume > 0 && volume < 5*gib {
		// A gigabyte of WAL between two checkpoints would fill a small volume.
		most = max(volume/5, 64*mib)
		kept = min(kept, most/2)
	} else if segment <= DefaultSegSize {
		return nil
	}
	most, kept = max(most, 2*least), max(kept, least)
	return ParameterList(map[string]string{"max_wal_size": number(most/mib) + "MB", "min_wal_size": number(kept/mib) + "MB"})
}

// leastSegments are as many as max_wal_size and min_wal_size must have room for; PostgreSQL doesn't start with less.
const leastSegments = 2

// CheckSegments says in a sentence why a server with WAL segments of so many bytes would not start with these parameters, which
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

// ReplicationParameters are good values for a server of a cluster with replicas, on a volume of so many bytes; zero is
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
		params["wal_keep_size"] = size(clamp(volume/20, 16*mib, 512*mib))
		// A replica that is away longer than that has to be cloned; a full volume would stop the primary.
		params["max_slot_wal_keep_size"] = size(max(volume/10*3, 64*mib))
	}
	return ParameterList(params)
}

// memoryParameters divides the memory: a quarter for shared buffers, and the rest for what queries
// need at once and for the kernel's page cache, which counts for the pod's limit but can be given back.
func memoryParameters(memory int64) []Parameter {
	buffers := clamp(memory/4, 16*mib, 64*gib)
	return ParameterList(map[string]string{
		"shared_buffers":       size(buffers),
		"effective_cache_size": size(clamp(memory/4*3, 32*mib, 1<<40)),
		// A hundred connections with two sorts each take a third of the memory at most.
		"work_mem":             size(clamp(memory/600, 4*mib, 64*mib)),
		"maintenance_work_mem": size(clamp(memory/16, 32*mib, 2*gib)),
	})
}

// coreParameters lets queries use the cores, one half of them at most for one query. Never fewer
// workers than PostgreSQL's own default: a standby must not have fewer than its primary.
func coreParameters(cores int) []Parameter {
	perQuery := clamp(int64(cores)/2, 0, 4)
	return ParameterList(map[string]string{
		"max_worker_processes":             number(max(8, int64(cores))),
		"max_parallel_workers":             number(int64(cores)),
		"max_parallel_workers_per_gather":  number(perQuery),
		"max_parallel_maintenance_workers": number(perQuery),
	})
}

func clamp(n, low, high int64) int64 { return min(max(n, low), high) }

func number(n int64) string { return strconv.FormatInt(n, 10) }

// size writes bytes in the units of postgresql.conf, rounded down to kB, in MB where that says the same.
func size(bytes int64) string {
	if bytes%mib == 0 {
		return number(bytes/mib) + "MB"
	}
	return number(bytes/kib) + "kB"
}
