package postgres

import "strconv"

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

// VolumeParameters are good values for a server on a volume of so many bytes; zero is unknown. A person may override each.
func VolumeParameters(volume int64) []Parameter {
	if volume <= 0 || volume >= 5*gib {
		return nil
	}
	// PostgreSQL's own gigabyte of WAL between two checkpoints would fill a small volume.
	most := max(volume/5, 64*mib)
	return ParameterList(map[string]string{"max_wal_size": number(most/mib) + "MB", "min_wal_size": number(min(80, most/mib/2)) + "MB"})
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
