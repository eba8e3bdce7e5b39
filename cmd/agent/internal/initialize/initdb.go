package initialize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	// hugePages keep the servers that initdb starts, and those that are started on initdb's configuration, from huge pages: a pod that
	// requests none dies of SIGBUS where its node has some.
	hugePages = "huge_pages=off"
	sample    = "postgresql.conf.sample"
)

// Initdb runs initdb of a major version, whose programs are in a folder.
func Initdb(ctx context.Context, run postgres.Run, binDir string, major int, args ...string) ([]byte, error) {
	initdb := filepath.Join(binDir, "initdb")
	if major >= 16 {
		return run(ctx, initdb, append(args, "--set="+hugePages)...)
	}
	inputs, err := withoutHugePages(ctx, run, binDir)
	if err != nil {
		return nil, err
	}
	if inputs != "" {
		defer os.RemoveAll(inputs)
		args = append(args, "-L", inputs)
	}
	return run(ctx, initdb, args...)
}

// withoutHugePages makes a folder of what initdb reads, with a line more in its configuration: before 16 there is no option for that.
// Empty: the programs don't say where they read it.
func withoutHugePages(ctx context.Context, run postgres.Run, binDir string) (dir string, err error) {
	program := filepath.Join(binDir, "pg_config")
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		return "", nil // as with the programs of another image
	}
	out, err := run(ctx, program, "--sharedir")
	if err != nil {
		return "", err
	}
	share := strings.TrimSpace(string(out))
	conf, err := os.ReadFile(filepath.Join(share, sample))
	if err != nil {
		return "", fmt.Errorf("what initdb reads: %w", err)
	}
	entries, err := os.ReadDir(share)
	if err != nil {
		return "", fmt.Errorf("what initdb reads: %w", err)
	}
	if dir, err = os.MkdirTemp("", "initdb"); err != nil {
		return "", err
	}
	errs := []error{os.WriteFile(filepath.Join(dir, sample), append(conf, "\n"+hugePages+"\n"...), 0o600)}
	for _, entry := range entries {
		if entry.Name() != sample {
			errs = append(errs, os.Symlink(filepath.Join(share, entry.Name()), filepath.Join(dir, entry.Name())))
		}
	}
	return dir, errors.Join(errs...)
}
