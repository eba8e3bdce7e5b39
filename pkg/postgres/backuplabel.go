package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// BackupLabel is the content of backup_label: from where a copy of a data directory must be replayed.
// A backup history file holds the same and where the backup ended.
type BackupLabel struct {
	StartLSN           LSN
	StartFile          string // name of the WAL segment that holds StartLSN
	StopLSN            LSN    // in a backup history file only
	StopFile           string
	Checkpoint         LSN
	Method             string // "streamed"
	From               string // "primary" or "standby"
	StartTime          string // as the server writes it, in its log_timezone
	Label              string
	StartTimeline      uint32
	StopTime           string // in a backup history file only
	StopTimeline       uint32
	IncrementalFrom    LSN // set for an incremental of pg_basebackup, from 17 on
	IncrementalFromTLI uint32
}

// ParseBackupLabel reads backup_label or a backup history file. Lines that it doesn't know are skipped,
// as the server does.
func ParseBackupLabel(content []byte) (BackupLabel, error) {
	var b BackupLabel
	for line := range strings.Lines(string(content)) {
		key, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		if !found {
			continue
		}
		if err := b.set(key, value); err != nil {
			return BackupLabel{}, fmt.Errorf("%w backup label: %s: %w", ErrSyntax, key, err)
		}
	}
	if b.StartLSN == 0 || b.Checkpoint == 0 {
		return BackupLabel{}, fmt.Errorf("%w backup label: it names no start or no checkpoint", ErrSyntax)
	}
	return b, nil
}

func (b *BackupLabel) set(key, value string) (err error) {
	switch key {
	case "START WAL LOCATION":
		b.StartLSN, b.StartFile, err = parseWALLocation(value)
	case "STOP WAL LOCATION":
		b.StopLSN, b.StopFile, err = parseWALLocation(value)
	case "CHECKPOINT LOCATION":
		b.Checkpoint, err = ParseLSN(value)
	case "BACKUP METHOD":
		b.Method = value
	case "BACKUP FROM":
		b.From = value
	case "START TIME":
		b.StartTime = value
	case "LABEL":
		b.Label = value
	case "START TIMELINE":
		b.StartTimeline, err = parseUint32(value)
	case "STOP TIME":
		b.StopTime = value
	case "STOP TIMELINE":
		b.StopTimeline, err = parseUint32(value)
	case "INCREMENTAL FROM LSN":
		b.IncrementalFrom, err = ParseLSN(value)
	case "INCREMENTAL FROM TLI":
		b.IncrementalFromTLI, err = parseUint32(value)
	}
	return err
}

// parseWALLocation reads "0/2000028 (file 000000010000000000000002)".
func parseWALLocation(value string) (LSN, string, error) {
	at, file, found := strings.Cut(value, " (file ")
	file, closed := strings.CutSuffix(file, ")")
	if !found || !closed {
		return 0, "", fmt.Errorf("%w location %q", ErrSyntax, value)
	}
	lsn, err := ParseLSN(at)
	return lsn, file, err
}

// Started is StartTime where the server's log_timezone is UTC, as Howdah sets it.
func (b BackupLabel) Started() (time.Time, error) {
	return time.ParseInLocation("2006-01-02 15:04:05 MST", b.StartTime, time.UTC)
}

// Render writes the label as the server writes backup_label.
func (b BackupLabel) Render() []byte {
	var out strings.Builder
	line := func(key, value string) { fmt.Fprintf(&out, "%s: %s\n", key, value) }
	line("START WAL LOCATION", fmt.Sprintf("%v (file %s)", b.StartLSN, b.StartFile))
	if b.StopLSN != 0 {
		line("STOP WAL LOCATION", fmt.Sprintf("%v (file %s)", b.StopLSN, b.StopFile))
	}
	line("CHECKPOINT LOCATION", b.Checkpoint.String())
	line("BACKUP METHOD", b.Method)
	line("BACKUP FROM", b.From)
	line("START TIME", b.StartTime)
	line("LABEL", b.Label)
	line("START TIMELINE", strconv.FormatUint(uint64(b.StartTimeline), 10))
	if b.StopLSN != 0 {
		line("STOP TIME", b.StopTime)
		line("STOP TIMELINE", strconv.FormatUint(uint64(b.StopTimeline), 10))
	}
	if b.IncrementalFrom != 0 {
		line("INCREMENTAL FROM LSN", b.IncrementalFrom.String())
		line("INCREMENTAL FROM TLI", strconv.FormatUint(uint64(b.IncrementalFromTLI), 10))
	}
	return []byte(out.String())
}
