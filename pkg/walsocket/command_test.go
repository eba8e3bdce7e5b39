package walsocket

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is the command as well.
func TestMain(m *testing.M) {
	if os.Getenv("HOWDAH_TEST_COMMAND") != "" {
		os.Exit(Command(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// shell runs a command line as PostgreSQL does, with its escapes filled in.
func shell(t *testing.T, line string, escapes ...string) (status int, said string) {
	t.Helper()
	line = strings.NewReplacer(append([]string{"%%", "%"}, escapes...)...).Replace(line)
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Env = append(os.Environ(), "HOWDAH_TEST_COMMAND=yes")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

type ending struct{ shelf }

func (ending) Archive(context.Context, string) error { return ErrGivenUp }

func TestTheCommandAnswersPostgreSQLByItsExitStatus(t *testing.T) {
	program := os.Args[0]
	dir, shelves, odd := serving(t, shelf{t.TempDir()}), serving(t, ending{}), filepath.Join(t.TempDir(), "it's 100% odd")
	if err := os.Symlink(dir, odd); err != nil {
		t.Fatal(err)
	}
	here, there := filepath.Join(t.TempDir(), "000000010000000000000001"), filepath.Join(t.TempDir(), "RECOVERYXLOG")
	if err := os.WriteFile(here, []byte("wal"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "000000010000000000000002")
	for name, c := range map[string]struct {
		line    string
		escapes []string
		status  int
		silent  bool
	}{
		"archived":                       {CommandLine(program, VerbArchive, odd, "%p"), []string{"%p", here}, 0, true},
		"not archived":                   {CommandLine(program, VerbArchive, dir, "%p"), []string{"%p", missing}, 1, false},
		"given up":                       {CommandLine(program, VerbArchive, shelves, "%p"), []string{"%p", here}, 200, true},
		"nobody there":                   {CommandLine(program, VerbArchive, t.TempDir(), "%p"), []string{"%p", here}, 1, false},
		"not in the archive":             {CommandLine(program, VerbFetch, dir, "%f", "%p"), []string{"%f", "00000009.history", "%p", there}, 1, true},
		"nobody there to fetch from":     {CommandLine(program, VerbFetch, t.TempDir(), "%f", "%p"), []string{"%f", "00000009.history", "%p", there}, 200, false},
		"the same of a replica":          {CommandLine(program, VerbFetchReplica, t.TempDir(), "%f", "%p"), []string{"%f", "00000009.history", "%p", there}, 1, false},
		"nothing that the command knows": {CommandLine(program, "lose", dir, "%p"), []string{"%p", here}, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			status, said := shell(t, c.line, c.escapes...)
			if status != c.status || (said == "") != c.silent {
				t.Errorf("status %d, it said %q", status, said)
			}
		})
	}
	if status, said := shell(t, CommandLine(program, VerbFetch, odd, "%f", "%p"), "%f", filepath.Base(here), "%p", there); status != 0 {
		t.Fatalf("status %d, it said %q", status, said)
	}
	if content, err := os.ReadFile(there); err != nil || string(content) != "wal" {
		t.Errorf("%q, %v", content, err)
	}
}
