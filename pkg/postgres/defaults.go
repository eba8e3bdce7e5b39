package postgres

import "strconv"

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// DefaultParameters are good values for a server of this major with so much memory (bytes) and so
// many cores to itself. A person may override each. Zero memory or cores is unknown: PostgreSQL's
// own defaults stay. docs/tuning.md has the reason of each.
func DefaultParameters(major int, memory int64, cores int) []Parameter {
	params := map[string]string{
		"archive_timeout":                  "1min", // bounds what a lost volume loses on a quiet server
		"autovacuum_analyze_scale_factor":  "0.05",
		"autovacuum_vacuum_scale_factor":   "0.1",
		"checkpoint_timeout":               "15min",
		"client_connection_check_interval": "10s",
		"huge_pages":                       "off", // "try" dies of SIGBUS where the node has some and the pod may not use them
		"jit":                              "off",
		"log_autovacuum_min_duration":      "10s",
		"log_checkpoints":                  "on",
		"log_lock_waits":                   "on",
		"log_recovery_conflict_waits":      "on",
		"log_temp_files":                   "10MB",
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
		"track_io_timing":         "on",
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
		layers = append(layers, coreParameters(major, cores))
	}
	return MergeParameters(layers...)
}

// Connections that are kept for the agent, a person who comes to help, and Howdah's Jobs. With few connections in all, PostgreSQL's own
// numbers stay: it doesn't start where all would be reserved.
const (
	superuserReserved = 5
	jobReserved       = 3 // from 16 on
	fewConnections    = 20
)

// ReservedConnections are the parameters that reserve connections on a server with what is asked of max_connections; empty: nothing.
func ReservedConnections(major int, asked string) []Parameter {
	if n, err := strconv.Atoi(asked); asked != "" && (err != nil || n < fewConnections) {
		return nil
	}
	params := map[string]string{"superuser_reserved_connections": number(superuserReserved)}
	if major >= 16 {
		params["reserved_connections"] = number(jobReserved)
	}
	return ParameterList(params)
}

// smallMemory is that of a pod, below which a hundred sessions would not find room.
const smallMemory = 384 * mib

const replicationRoom = 20 // slots, and senders

// agentMemory is what the agent takes of the container's memory: it supervises, archives and hashes in the same one.
func agentMemory(memory int64) int64 { return clamp(memory/32, 48*mib, 192*mib) }

// memoryParameters divides the memory: a quarter for shared buffers, the agent's part, and the rest for what sessions
// need at once and for the kernel's page cache, which counts for the pod's limit but can be given back.
func memoryParameters(memory int64) []Parameter {
	buffers := clamp(memory/4, 16*mib, 64*gib)
	// A session takes a few MB before it sorts anything. More of them are work for a pooler. Two steps only, because another number takes a
	// restart of all instances, and memory is added to pods that run.
	connections := int64(100)
	if memory < smallMemory {
		connections = 40
	}
	rest := max(memory-buffers-agentMemory(memory), 0)
	return ParameterList(map[string]string{
		"shared_buffers":       size(buffers),
		"effective_cache_size": size(clamp(memory/4*3, 32*mib, 1<<40)),
		"max_connections":      number(connections),
		// All connections with a sort each take half of the rest.
		"work_mem":             size(clamp(rest/connections/2, mib, 64*mib)),
		"maintenance_work_mem": size(clamp(memory/16, 16*mib, 2*gib)),
	})
}

// coreParameters lets queries use the cores, one half of them at most for one query, and lets autovacuum and asynchronous I/O keep up
// with what they write. Never fewer workers than PostgreSQL's own default: a standby must not have fewer than its primary.
func coreParameters(major, cores int) []Parameter {
	perQuery := clamp(int64(cores)/2, 0, 4)
	params := map[string]string{
		"autovacuum_max_workers":           number(clamp(int64(cores)/4, 3, 10)),
		"autovacuum_vacuum_cost_limit":     number(clamp(int64(cores)*200, 400, 2400)),
		"max_worker_processes":             number(max(8, int64(cores)+8)), // beside parallel queries, logical replication and extensions have theirs
		"max_parallel_workers":             number(int64(cores)),
		"max_parallel_workers_per_gather":  number(perQuery),
		"max_parallel_maintenance_workers": number(perQuery),
	}
	if major >= 18 {
		params["io_workers"] = number(clamp(int64(cores)/4, 3, 16))
	}
	return ParameterList(params)
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
