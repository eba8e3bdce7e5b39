package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAVersionIsReadHoweverPostgreSQLSaysIt(t *testing.T) {
	for text, want := range map[string]Version{
		"PostgreSQL 17.5 (Debian 17.5-1.pgdg120+1) on x86_64-pc-linux-gnu, compiled by gcc": {17, 5},
		"postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n":                            {15, 14},
		"pg_controldata (PostgreSQL) 18beta1":                                               {18, 0},
		"18rc1":                                                                             {18, 0},
		"19devel":                                                                           {19, 0},
		"15\n":                                                                              {15, 0},
		"17.5":                                                                              {17, 5},
	} {
		if got, err := ParseVersion(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got := VersionFromNum(170005); got != (Version{17, 5}) || got.Num() != 170005 || got.String() != "17.5" {
		t.Errorf("170005: %v", got)
	}
}

func TestATextThatIsNoVersionIsRefused(t *testing.T) {
	for _, text := range []string{"", "9.6.24", "1", "017", "latest", "17.x", "17.5.1", "v17", "MySQL 17.5", "-17", "17-alpine", "170005"} {
		if got, err := ParseVersion(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestVersionsAreOrderedByNumberNotByText(t *testing.T) {
	if (Version{15, 9}).Compare(Version{15, 10}) >= 0 || (Version{18, 0}).Compare(Version{17, 9}) <= 0 {
		t.Error("order")
	}
}

func TestProgramsOnPATHServeOnlyTheirOwnMajor(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "postgres"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	run := func(_ context.Context, name string, args ...string) ([]byte, error) {
		return []byte("postgres (PostgreSQL) 99.1\n"), nil
	}
	if got, err := BinDir(t.Context(), run, 99); err != nil || got != dir {
		t.Errorf("99: %q, %v", got, err)
	}
	if got, err := BinDir(t.Context(), run, 98); err == nil || !strings.Contains(err.Error(), "is 99.1") {
		t.Errorf("98: %q, %v", got, err)
	}
}

func TestAFailedProgramsErrorSaysWhatItWrote(t *testing.T) {
	_, err := Exec(t.Context(), "sh", "-c", "echo no such cluster >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no such cluster") {
		t.Errorf("%v", err)
	}
}
