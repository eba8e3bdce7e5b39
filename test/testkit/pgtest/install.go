// Package pgtest starts throw-away PostgreSQL servers for tests. Use it under the build tag
// postgres only: it needs PostgreSQL's programs on the machine.
package pgtest

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
)

// Installation is one PostgreSQL on this machine.
type Installation struct {
	postgres.Version
	BinDir string
}

// Installed lists what tests may use, oldest first: the folders in PG_BINDIRS (separated by colons),
// else what Debian's packages installed. It fails the test where there is none.
func Installed(t testing.TB) []Installation {
	t.Helper()
	looking.Lock()
	defer looking.Unlock()
	if installed == nil {
		installed = find(t)
	}
	return slices.Clone(installed)
}

// What was found, so that each program is asked for its version once.
var (
	looking   sync.Mutex
	installed []Installation
)

func find(t testing.TB) []Installation {
	t.Helper()
	var found []Installation
	for _, dir := range binDirs() {
		version, err := postgres.ProgramVersion(t.Context(), postgres.Exec, filepath.Join(dir, "postgres"))
		if err != nil {
			t.Fatalf("PostgreSQL in %s: %v", dir, err)
		}
		found = append(found, Installation{Version: version, BinDir: dir})
	}
	if len(found) == 0 {
		t.Fatal("no PostgreSQL found: install postgresql-15, or name folders of programs in PG_BINDIRS")
	}
	slices.SortFunc(found, func(a, b Installation) int {
		return cmp.Or(a.Compare(b.Version), cmp.Compare(a.BinDir, b.BinDir))
	})
	return found
}

func binDirs() []string {
	if dirs := os.Getenv("PG_BINDIRS"); dirs != "" {
		return strings.Split(dirs, ":")
	}
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // fails on a bad pattern only
	for i, program := range programs {
		programs[i] = filepath.Dir(program)
	}
	return programs
}

// OneVersionIsEnough skips a test that doesn't depend on PostgreSQL's version where it would be run a second time, in the
// root of an image. `make test-full` runs it there, too.
func OneVersionIsEnough(t testing.TB) {
	t.Helper()
	if testing.Short() && os.Getenv("HOWDAH_IN_IMAGE") != "" {
		t.Skip("what it tests doesn't depend on PostgreSQL's version")
	}
}

// Each runs a test for every installed PostgreSQL.
func Each(t *testing.T, test func(t *testing.T, pg Installation)) {
	t.Helper()
	for _, pg := range Installed(t) {
		t.Run(pg.Version.String(), func(t *testing.T) { test(t, pg) })
	}
}
