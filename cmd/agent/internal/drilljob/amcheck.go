package drilljob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/job"
)

// ReasonBadImage means that the PostgreSQL image lacks what is needed.
const ReasonBadImage = "BadImage"

// foundDamage is pg_amcheck's exit status when it has complained of something.
const foundDamage = 2

// mostOutput is how much of pg_amcheck's words is read. A table that is damaged everywhere gives a line a row.
const mostOutput = 4 << 20

// amcheck lets pg_amcheck read every table and index of every database, and returns those that it complains of. Its
// extension is made where it is missing.
func (w Worker) amcheck(ctx context.Context) ([]string, error) {
	program := filepath.Join(w.BinDir, "pg_amcheck")
	if _, err := os.Stat(program); err != nil {
		return nil, job.Final(ReasonBadImage, fmt.Errorf("the PostgreSQL image has no pg_amcheck: %w", err))
	}
	cmd := exec.CommandContext(ctx, program, "--all", "--install-missing", "--heapallindexed", "--jobs=2", "--no-password",
		"--maintenance-db="+w.Superuser+" dbname=postgres")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, stderr := &limited{most: mostOutput}, &limited{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = out, stderr
	err := cmd.Run()
	ended := &exec.ExitError{}
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &ended) && ended.ExitCode() == foundDamage:
		return complaints(out.String()), nil
	}
	return nil, job.Fail(job.ReasonFailed, fmt.Errorf("pg_amcheck: %w: %s", err, strings.TrimSpace(stderr.String())))
}

// complaint is the line above what pg_amcheck says of a table or index; what it says is indented.
var complaint = regexp.MustCompile(`^([a-z ]+ ".*?")(?:, block .*)?:$`)

// complaints are the relations that pg_amcheck names, each once. What it says of them may quote data, and is left out.
func complaints(output string) []string {
	var named []string
	for line := range strings.Lines(output) {
		found := complaint.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if found != nil && !slices.Contains(named, found[1]) {
			named = append(named, found[1])
		}
	}
	if len(named) == 0 {
		return []string{"something that it doesn't name"}
	}
	return named
}

// limited keeps the beginning of what is written to it.
type limited struct {
	bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.Len(); room > 0 {
		_, _ = l.Buffer.Write(p[:min(room, len(p))]) // a Buffer takes all
	}
	return len(p), nil
}
