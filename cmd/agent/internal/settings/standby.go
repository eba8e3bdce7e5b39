package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	standbySignal  = "standby.signal"
	recoverySignal = "recovery.signal"
	autoConf       = "postgresql.auto.conf"
)

// MarkStandby makes the next server on a data directory a replica. Promotion takes that back.
func MarkStandby(pgdata string) error {
	if err := DropOverrides(pgdata); err != nil {
		return err
	}
	if err := remove(pgdata, recoverySignal); err != nil {
		return err
	}
	return generation.WriteFile(filepath.Join(pgdata, standbySignal), nil, 0o600)
}

// MarkPrimary makes the next server on a data directory a primary that continues where it was. It is for a directory whose
// last server was a primary: a replica's would continue writing the timeline that it followed, which only a promotion ends.
func MarkPrimary(pgdata string) error {
	if err := DropOverrides(pgdata); err != nil {
		return err
	}
	if err := remove(pgdata, recoverySignal); err != nil {
		return err
	}
	return remove(pgdata, standbySignal)
}

// IsStandby says whether the next server on a data directory would be a replica.
func IsStandby(pgdata string) (bool, error) {
	_, err := os.Lstat(filepath.Join(pgdata, standbySignal))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func remove(pgdata, name string) error {
	err := os.Remove(filepath.Join(pgdata, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return generation.SyncDir(pgdata)
}

// DropOverrides takes what belongs to Howdah out of postgresql.auto.conf, where ALTER SYSTEM has put it, or a copy from
// another instance.
func DropOverrides(pgdata string) error {
	path := filepath.Join(pgdata, autoConf)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := withoutFixed(string(content))
	if kept == string(content) {
		return nil
	}
	return generation.WriteFile(path, []byte(kept), 0o600)
}

func withoutFixed(content string) string {
	var kept strings.Builder
	for line := range strings.Lines(content) {
		name, _, _ := strings.Cut(line, "=")
		if _, isFixed := postgres.Fixed(strings.ToLower(strings.TrimSpace(name))); !isFixed {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
