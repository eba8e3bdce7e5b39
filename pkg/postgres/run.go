package postgres

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Run starts one of PostgreSQL's programs, waits for it and returns its standard output. Its
// messages must be untranslated.
type Run func(ctx context.Context, name string, args ...string) ([]byte, error)

// Exec is the Run of this machine. Its error carries what the program wrote to standard error.
func Exec(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// DebianBinDir is where Debian's packages and the official image keep the programs of a major.
func DebianBinDir(major int) string {
	return fmt.Sprintf("/usr/lib/postgresql/%d/bin", major)
}

// binDirs are the folders where packages keep the programs of a major: Debian's, those of the PostgreSQL project for Red Hat, and
// Alpine's.
func binDirs(major int) []string {
	return []string{DebianBinDir(major), fmt.Sprintf("/usr/pgsql-%d/bin", major), fmt.Sprintf("/usr/libexec/postgresql%d", major)}
}

// BinDir finds the folder of the programs of a major: that of a package, else the one that PATH leads to, if it is of that major.
func BinDir(ctx context.Context, run Run, major int) (string, error) {
	for _, dir := range binDirs(major) {
		if isFile(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL %d is neither in %s nor on PATH: %w", major, strings.Join(binDirs(major), ", "), err)
	}
	version, err := ProgramVersion(ctx, run, path)
	if err != nil {
		return "", err
	}
	if version.Major != major {
		return "", fmt.Errorf("PostgreSQL %d is not installed; %s is %v", major, path, version)
	}
	return filepath.Dir(path), nil
}

// ProgramVersion asks one of PostgreSQL's programs for its version.
func ProgramVersion(ctx context.Context, run Run, path string) (Version, error) {
	out, err := run(ctx, path, "--version")
	if err != nil {
		return Version{}, err
	}
	return ParseVersion(string(out))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
