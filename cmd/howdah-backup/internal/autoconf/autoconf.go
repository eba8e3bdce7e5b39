// Package autoconf writes the settings with which PostgreSQL continues from a restored backup by itself.
package autoconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// Spool is the folder, seen from PGDATA, that takes the WAL which is fetched ahead of replay.
const Spool = "pg_wal/howdah-spool"

// Settings say how recovery goes.
type Settings struct {
	StopAt pitr.Target
	// Timeline to follow; Own is that of the backup.
	Timeline, Own uint32
	// Command is this program with the flags that lead to the bucket and lineage.
	Command []string
	// Action is what happens at the end: promote, pause or shutdown.
	Action string
}

const autoConf = "postgresql.auto.conf"

// Write adds the settings to postgresql.auto.conf, and makes recovery.signal. What was set there for another recovery goes.
func (s Settings) Write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	old, err := root.ReadFile(autoConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	added, err := postgres.RenderConf(s.parameters())
	if err != nil {
		return err
	}
	if err := backup.ReplaceFile(root, autoConf, []byte(without(string(old))+added)); err != nil {
		return err
	}
	return backup.CreateFile(root, "recovery.signal", nil)
}

// DropCode removes from the configuration that was restored what loads code, runs a command or reads further settings, and names
// it: anybody with access to a bucket that is not encrypted may have written it.
func DropCode(dir string) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var all []string
	for _, name := range []string{"postgresql.conf", autoConf} {
		content, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		kept, dropped := postgres.WithoutCode(string(content))
		if len(dropped) == 0 {
			continue
		}
		if err := backup.ReplaceFile(root, name, []byte(kept)); err != nil {
			return nil, err
		}
		all = append(all, dropped...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (s Settings) parameters() []postgres.Parameter {
	params := map[string]string{
		"restore_command":           s.restoreCommand(),
		"recovery_end_command":      "rm -rf " + Spool,
		"recovery_target_action":    s.Action,
		"recovery_target_inclusive": "on",
		"recovery_target_timeline":  "current",
	}
	if s.Timeline != s.Own {
		params["recovery_target_timeline"] = fmt.Sprint(s.Timeline)
	}
	if s.Action != "pause" {
		// A server that lets nobody in until it is done needs no more connections and workers than it happens to have.
		params["hot_standby"] = "off"
	}
	switch t := s.StopAt; {
	case t.Time != nil:
		params["recovery_target_time"] = t.Time.UTC().Format("2006-01-02 15:04:05.999999+00")
	case !t.LSN.IsZero(): // everything before it is wanted, as pg_current_wal_lsn gives it
		params["recovery_target_lsn"], params["recovery_target_inclusive"] = t.LSN.String(), "off"
	case t.RestorePoint != "":
		params["recovery_target_name"] = t.RestorePoint
	case t.Immediate:
		params["recovery_target"] = "immediate"
	}
	return postgres.ParameterList(params)
}

func (s Settings) restoreCommand() string {
	var words []string
	for _, word := range s.Command {
		words = append(words, quote(word))
	}
	return strings.Join(append(words, "--spool="+Spool, `"%f"`, `"%p"`), " ")
}

// quote makes one word of the shell that runs restore_command; a percent sign would start an escape there.
func quote(word string) string {
	word = strings.ReplaceAll(word, "%", "%%")
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/.:,+@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, `'`, `'\''`) + "'"
}

// ours are settings that must not stay from another recovery: PostgreSQL refuses two targets.
var ours = []string{"recovery_", "restore_command", "archive_cleanup_command", "primary_conninfo", "primary_slot_name", "hot_standby ", "hot_standby="}

func without(conf string) string {
	var kept strings.Builder
	for line := range strings.Lines(conf) {
		name := strings.ToLower(strings.TrimSpace(line))
		drop := false
		for _, setting := range ours {
			drop = drop || strings.HasPrefix(name, setting)
		}
		if !drop {
			kept.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return kept.String()
}
