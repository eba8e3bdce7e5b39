package postgres

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ClusterState is the state of a data directory, as pg_controldata words it.
type ClusterState string

// The states of a data directory.
const (
	StateStartingUp        ClusterState = "starting up"
	StateShutDown          ClusterState = "shut down"             // cleanly, as a primary
	StateShutDownRecovery  ClusterState = "shut down in recovery" // cleanly, as a standby
	StateShuttingDown      ClusterState = "shutting down"
	StateInCrashRecovery   ClusterState = "in crash recovery"
	StateInArchiveRecovery ClusterState = "in archive recovery"
	StateInProduction      ClusterState = "in production" // running as a primary, or crashed as one
)

// Clean says that the directory was shut down in order.
func (s ClusterState) Clean() bool { return s == StateShutDown || s == StateShutDownRecovery }

// ControlData is what pg_control says about a data directory.
type ControlData struct {
	ControlVersion      int // of pg_control's format: 1300 for 14 to 16, 1700 for 17, 1800 for 18
	CatalogVersion      int
	SystemIdentifier    uint64
	State               ClusterState
	Modified            time.Time
	Checkpoint          LSN
	Redo                LSN
	RedoSegment         string // name of the WAL segment
	Timeline            uint32 // of the latest checkpoint
	PreviousTimeline    uint32
	CheckpointTime      time.Time
	MinRecoveryEnd      LSN    // zero where there was no archive recovery
	MinRecoveryTimeline uint32 // zero with it
	BackupStart         LSN    // set while a base backup is not yet replayed to its end
	BackupEnd           LSN
	BackupEndRequired   bool
	WALLevel            string
	MaxConnections      int
	MaxWorkerProcesses  int
	MaxWALSenders       int
	MaxPreparedXacts    int
	MaxLocksPerXact     int
	PageSize            int    // bytes
	SegSize             uint64 // of a WAL segment, bytes
	RelSegBlocks        uint32 // blocks in a file of a relation
	ChecksumVersion     int    // zero: no page checksums
}

// Checksums says whether the data pages have checksums.
func (c ControlData) Checksums() bool { return c.ChecksumVersion != 0 }

// ReadControlData runs pg_controldata of binDir on a data directory. A torn pg_control is an error.
func ReadControlData(ctx context.Context, run Run, binDir, dataDir string) (ControlData, error) {
	out, err := run(ctx, filepath.Join(binDir, "pg_controldata"), "-D", dataDir)
	if err != nil {
		return ControlData{}, err
	}
	return ParseControlData(out)
}

// ParseControlData reads the untranslated output of pg_controldata 14 to 18, with times in UTC.
func ParseControlData(out []byte) (ControlData, error) {
	fields := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if label, value, found := strings.Cut(line, ":"); found {
			fields[label] = strings.TrimSpace(value)
		}
		if strings.HasPrefix(line, "WARNING: Calculated CRC checksum does not match") {
			return ControlData{}, fmt.Errorf("%w pg_control: its checksum does not match", ErrSyntax)
		}
	}
	var c ControlData
	var errs []error
	for label, read := range c.readers() {
		value, found := fields[label]
		if !found {
			errs = append(errs, fmt.Errorf("%w output of pg_controldata: no line %q", ErrSyntax, label))
		} else if err := read(value); err != nil {
			errs = append(errs, fmt.Errorf("pg_controldata: %s: %w", label, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ControlData{}, err
	}
	return c, nil
}

// readers says which line is read into which field.
func (c *ControlData) readers() map[string]func(string) error {
	return map[string]func(string) error{
		"pg_control version number":            into(&c.ControlVersion, strconv.Atoi),
		"Catalog version number":               into(&c.CatalogVersion, strconv.Atoi),
		"Database system identifier":           into(&c.SystemIdentifier, parseUint64),
		"Database cluster state":               into(&c.State, parseState),
		"pg_control last modified":             into(&c.Modified, parseControlTime),
		"Latest checkpoint location":           into(&c.Checkpoint, ParseLSN),
		"Latest checkpoint's REDO location":    into(&c.Redo, ParseLSN),
		"Latest checkpoint's REDO WAL file":    into(&c.RedoSegment, parseText),
		"Latest checkpoint's TimeLineID":       into(&c.Timeline, parseUint32),
		"Latest checkpoint's PrevTimeLineID":   into(&c.PreviousTimeline, parseUint32),
		"Time of latest checkpoint":            into(&c.CheckpointTime, parseControlTime),
		"Minimum recovery ending location":     into(&c.MinRecoveryEnd, ParseLSN),
		"Min recovery ending loc's timeline":   into(&c.MinRecoveryTimeline, parseUint32),
		"Backup start location":                into(&c.BackupStart, ParseLSN),
		"Backup end location":                  into(&c.BackupEnd, ParseLSN),
		"End-of-backup record required":        into(&c.BackupEndRequired, parseYesNo),
		"wal_level setting":                    into(&c.WALLevel, parseText),
		"max_connections setting":              into(&c.MaxConnections, strconv.Atoi),
		"max_worker_processes setting":         into(&c.MaxWorkerProcesses, strconv.Atoi),
		"max_wal_senders setting":              into(&c.MaxWALSenders, strconv.Atoi),
		"max_prepared_xacts setting":           into(&c.MaxPreparedXacts, strconv.Atoi),
		"max_locks_per_xact setting":           into(&c.MaxLocksPerXact, strconv.Atoi),
		"Database block size":                  into(&c.PageSize, strconv.Atoi),
		"Bytes per WAL segment":                into(&c.SegSize, parseSegSize),
		"Blocks per segment of large relation": into(&c.RelSegBlocks, parseUint32),
		"Data page checksum version":           into(&c.ChecksumVersion, strconv.Atoi),
	}
}

// into makes a reader that puts what parse makes of a value into a field.
func into[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(value string) (err error) {
		*field, err = parse(value)
		return err
	}
}

func parseText(s string) (string, error) { return s, nil }

func parseUint64(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }

func parseUint32(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

func parseYesNo(s string) (bool, error) {
	if s != "yes" && s != "no" {
		return false, fmt.Errorf("%w: %q is neither yes nor no", ErrSyntax, s)
	}
	return s == "yes", nil
}

func parseState(s string) (ClusterState, error) {
	switch state := ClusterState(s); state {
	case StateStartingUp, StateShutDown, StateShutDownRecovery, StateShuttingDown,
		StateInCrashRecovery, StateInArchiveRecovery, StateInProduction:
		return state, nil
	}
	return "", fmt.Errorf("%w: unknown state %q", ErrSyntax, s)
}

func parseSegSize(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err == nil && !ValidSegSize(n) {
		err = fmt.Errorf("%w: %d is not a WAL segment size", ErrSyntax, n)
	}
	return n, err
}

// parseControlTime reads the %c of the C locale; Exec sets TZ to UTC.
func parseControlTime(s string) (time.Time, error) {
	return time.Parse("Mon Jan _2 15:04:05 2006", s)
}
