package restorejob

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

const port = 5432

// parameters configure a server that only recovers: nobody reaches it, nothing works in its background, and what it
// writes is made durable once, at the end, because until then it counts for nothing.
func parameters(r *restoring, control postgres.ControlData, target agentapi.RestoreTarget) []postgres.Parameter {
	dir := r.configDir()
	return postgres.MergeParameters(
		postgres.ParameterList(map[string]string{
			"allow_in_place_tablespaces":      "on", // a tablespace is restored as a folder
			"archive_mode":                    "off",
			"autovacuum":                      "off",
			"checkpoint_timeout":              "15min",
			"fsync":                           "off",
			"hba_file":                        filepath.Join(dir, hbaFile),
			"hot_standby":                     "off",
			"huge_pages":                      "off", // the Job requests none
			"ident_file":                      filepath.Join(dir, identFile),
			"lc_messages":                     "C",
			"listen_addresses":                "",
			"log_destination":                 "stderr",
			"log_line_prefix":                 postgres.LogLinePrefix,
			"log_timezone":                    "UTC",
			"logging_collector":               "off",
			"max_connections":                 fmt.Sprint(control.MaxConnections),
			"max_locks_per_transaction":       fmt.Sprint(control.MaxLocksPerXact),
			"max_logical_replication_workers": "0",
			"max_prepared_transactions":       fmt.Sprint(control.MaxPreparedXacts),
			"max_wal_senders":                 fmt.Sprint(control.MaxWALSenders),
			"max_worker_processes":            fmt.Sprint(control.MaxWorkerProcesses),
			"port":                            fmt.Sprint(port),
			"restart_after_crash":             "off",
			"restore_command":                 walsocket.CommandLine(r.WAL, walsocket.VerbFetch, r.SocketDir, "%f", "%p"),
			"shared_preload_libraries":        r.task.PreloadLibraries,
			"ssl":                             "off",
			"timezone":                        "UTC",
			"unix_socket_directories":         r.SocketDir,
			"wal_level":                       "replica",
		}),
		memory(r.Memory),
		postgres.VolumeParameters(0, int64(control.SegSize)), // large segments need more than PostgreSQL's own values
		targetParameters(target, timeline(r.task.Timeline, r.manifest.Timeline)),
	)
}

// memory gives replay a quarter of the Job's for its buffers; PostgreSQL's own 128 MB where there is no limit.
func memory(bytes int64) []postgres.Parameter {
	if bytes <= 0 {
		return nil
	}
	for _, p := range postgres.DefaultParameters(postgres.NewestMajor, bytes, 0) {
		if p.Name == "shared_buffers" {
			return []postgres.Parameter{p}
		}
	}
	return nil
}

// timeline is recovery_target_timeline. The backup's own one needs no history file that way.
func timeline(planned int64, own uint32) string {
	if planned == 0 || planned == int64(own) {
		return "current"
	}
	return fmt.Sprint(planned)
}

// targetParameters say where replay stops. Unless something else is said, a time, a transaction and a restore point are
// included; an LSN is the position before which everything is wanted, as pg_current_wal_lsn gives it.
func targetParameters(target agentapi.RestoreTarget, timeline string) []postgres.Parameter {
	params := map[string]string{
		"recovery_target_timeline": timeline, "recovery_target_action": "promote", "recovery_target_inclusive": "on",
	}
	switch {
	case target.Time != nil:
		params["recovery_target_time"] = target.Time.UTC().Format("2006-01-02 15:04:05.999999+00")
	case target.LSN != "":
		params["recovery_target_lsn"], params["recovery_target_inclusive"] = target.LSN, "off"
	case target.RestorePoint != "":
		params["recovery_target_name"] = target.RestorePoint
	case target.XID != 0:
		params["recovery_target_xid"] = fmt.Sprint(target.XID)
	case target.Immediate:
		params["recovery_target"] = "immediate"
	}
	if target.Inclusive != nil {
		params["recovery_target_inclusive"] = map[bool]string{true: "on", false: "off"}[*target.Inclusive]
	}
	return postgres.ParameterList(params)
}

// recoverySettings are those that must not outlive a restore.
var recoverySettings = []string{
	"recovery_", "restore_command", "archive_cleanup_command", "primary_conninfo", "primary_slot_name", "promote_trigger_file",
}

// withoutRecovery drops them from the lines of a postgresql.auto.conf.
func withoutRecovery(conf string) string {
	var kept strings.Builder
	for line := range strings.Lines(conf) {
		name := strings.ToLower(strings.TrimSpace(line))
		drop := false
		for _, setting := range recoverySettings {
			drop = drop || strings.HasPrefix(name, setting)
		}
		if !drop {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// parseCommitTime reads the time in PostgreSQL's message about the last transaction that was replayed.
func parseCommitTime(message string) (time.Time, bool) {
	_, text, found := strings.Cut(message, "last completed transaction was at log time ")
	if !found {
		return time.Time{}, false
	}
	at, err := time.Parse("2006-01-02 15:04:05.999999-07", strings.TrimSpace(text))
	return at.UTC(), err == nil
}
