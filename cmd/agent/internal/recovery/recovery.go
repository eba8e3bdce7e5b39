// Package recovery runs a server that only replays WAL on data that becomes a cluster of its own: what a restore and a clone have in common.
package recovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/postgres"
)

// Port of the server, on a Unix socket only.
const Port = 5432

// Files of the server's configuration, in a folder of their own.
const (
	HBAFile   = "pg_hba.conf"
	IdentFile = "pg_ident.conf"
	ConfFile  = "postgresql.conf"
	// AutoConf is in the data directory, with what ALTER SYSTEM has set. It must not count while the server recovers.
	AutoConf = "postgresql.auto.conf"
)

const lookInterval = 200 * time.Millisecond

// Parameters configure a server that only recovers: nobody reaches it, nothing works in its background, and what it
// writes is made durable once, at the end, because until then it counts for nothing.
func Parameters(control postgres.ControlData, configDir, socketDir, preloadLibraries string) []postgres.Parameter {
	return postgres.MergeParameters(
		postgres.ParameterList(map[string]string{
			"allow_in_place_tablespaces":      "on", // a tablespace is a folder
			"archive_mode":                    "off",
			"autovacuum":                      "off",
			"checkpoint_timeout":              "15min",
			"fsync":                           "off",
			"hba_file":                        filepath.Join(configDir, HBAFile),
			"hot_standby":                     "off",
			"huge_pages":                      "off", // the Job requests none
			"ident_file":                      filepath.Join(configDir, IdentFile),
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
			"port":                            fmt.Sprint(Port),
			"recovery_target_action":          "promote",
			"restart_after_crash":             "off",
			"shared_preload_libraries":        preloadLibraries,
			"ssl":                             "off",
			"timezone":                        "UTC",
			"unix_socket_directories":         socketDir,
			"wal_level":                       "replica",
		}),
		postgres.VolumeParameters(0, int64(control.SegSize)), // large segments need more than PostgreSQL's own values
	)
}

// OnWALVolume bounds the WAL of a server whose WAL is on a volume of its own. Without one, PostgreSQL's own values are good enough for as long as it replays.
func OnWALVolume(volume generation.Volume, control postgres.ControlData) []postgres.Parameter {
	root, has, err := generation.WAL(volume).Root()
	if err != nil || !has {
		return nil
	}
	size, _, err := generation.Volume(root).Space()
	if err != nil {
		return nil
	}
	return postgres.WALVolumeParameters(size, int64(control.SegSize))
}

// WriteConfig writes the files of the server's configuration. Only the superuser of this very container may log in.
func WriteConfig(dir string, parameters []postgres.Parameter) error {
	conf, err := postgres.RenderConf(parameters)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range map[string]string{ConfFile: conf, HBAFile: "local all postgres peer\nlocal all all reject\n", IdentFile: ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// AwaitPromotion waits until the server is no standby any more: then replay is over. False: it ended before, or ctx did.
func AwaitPromotion(ctx context.Context, server *postmaster.Server, pgdata string) bool {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case <-server.Done():
			return false
		case <-ctx.Done():
			return false
		case <-look.C:
			content, err := os.ReadFile(filepath.Join(pgdata, "postmaster.pid"))
			if err != nil {
				continue // not written yet
			}
			if pid, err := postgres.ParsePostmasterPID(content); err == nil && pid.PID == server.PID() && pid.Status == "ready" {
				return true
			}
		}
	}
}

// settings are those that must not outlive recovery.
var settings = []string{
	"recovery_", "restore_command", "archive_cleanup_command", "primary_conninfo", "primary_slot_name", "promote_trigger_file",
}

// WithoutSettings drops what recovery was configured with from the lines of a postgresql.auto.conf.
func WithoutSettings(conf string) string {
	var kept strings.Builder
	for line := range strings.Lines(conf) {
		name := strings.ToLower(strings.TrimSpace(line))
		drop := false
		for _, setting := range settings {
			drop = drop || strings.HasPrefix(name, setting)
		}
		if !drop {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
