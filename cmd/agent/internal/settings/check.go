package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrRefused is a configuration that PostgreSQL doesn't start with. The error's text is PostgreSQL's own sentence.
var ErrRefused = errors.New("PostgreSQL refuses the configuration")

// Target is what a configuration is checked for.
type Target struct {
	BinDir string
	PGData string
	// Scratch is a folder that is made and removed.
	Scratch string
	// MemoryBytes of the container; 0 is unknown.
	MemoryBytes int64
}

// Check has PostgreSQL read the files as at a start: it parses every value, loads the libraries, reads the certificates
// and adds up its shared memory, beside a running server and without touching its data. Paths that the files name must
// exist. Errors: ErrRefused, and others if it can't be checked.
func Check(ctx context.Context, f Files, paths Paths, target Target) error {
	if err := makeScratch(target); err != nil {
		return err
	}
	defer os.RemoveAll(target.Scratch)
	paths.Dir = target.Scratch
	if err := f.Write(paths); err != nil {
		return err
	}
	needed, err := sharedMemory(ctx, f, paths, target)
	if err != nil {
		return err
	}
	if target.MemoryBytes > 0 && needed > target.MemoryBytes {
		return fmt.Errorf("%w: it would need %d MB of shared memory, and the container has %d MB: lower shared_buffers or max_connections",
			ErrRefused, needed>>20, target.MemoryBytes>>20)
	}
	return nil
}

// makeScratch makes a data directory that has just what a server reads before it opens any data.
func makeScratch(target Target) error {
	if err := os.RemoveAll(target.Scratch); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(target.Scratch, "global"), 0o700); err != nil {
		return err
	}
	for _, name := range []string{"PG_VERSION", "global/pg_control", "postgresql.auto.conf"} {
		content, err := os.ReadFile(filepath.Join(target.PGData, name))
		if errors.Is(err, fs.ErrNotExist) && name == "postgresql.auto.conf" {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(target.Scratch, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sharedMemory is what the server would allocate, in bytes. PostgreSQL computes it last of all before a start.
func sharedMemory(ctx context.Context, f Files, paths Paths, target Target) (int64, error) {
	args := append([]string{"-D", target.Scratch, "-C", "shared_memory_size"}, f.Arguments(paths)...)
	args = append(args, "-c", "log_line_prefix=") // for complaint
	cmd := exec.CommandContext(ctx, filepath.Join(target.BinDir, "postgres"), args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return 0, fmt.Errorf("%w: %s", ErrRefused, complaint(stderr.String()))
	}
	if err != nil {
		return 0, err
	}
	megabytes, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("PostgreSQL doesn't say how much shared memory it needs: %w", err)
	}
	return megabytes << 20, nil
}

// complaint takes what is wrong out of the messages of a server that didn't start. They quote the values, which is what
// a person needs here.
func complaint(stderr string) string {
	var wrong []string
	for line := range strings.Lines(stderr) {
		kind, text, found := strings.Cut(strings.TrimSpace(line), ":")
		text = strings.TrimSpace(text)
		switch {
		case !found || strings.HasPrefix(text, "skipping missing configuration file") || strings.HasSuffix(text, "contains errors"):
		case kind == "HINT" && len(wrong) > 0:
			wrong[len(wrong)-1] += " (" + text + ")"
		case slices.Contains([]string{"LOG", "WARNING", "ERROR", "FATAL", "postgres"}, kind):
			wrong = append(wrong, withoutFile(text))
		}
	}
	if len(wrong) == 0 {
		return "it says nothing"
	}
	return strings.Join(wrong, "; ")
}

// withoutFile leaves out where a parameter stands: in a file that nobody but us has seen.
func withoutFile(text string) string {
	before, after, found := strings.Cut(text, " in file \"")
	if !found {
		return text
	}
	if _, rest, closed := strings.Cut(after, "\" line "); closed {
		return before + strings.TrimLeft(rest, "0123456789")
	}
	return text
}
