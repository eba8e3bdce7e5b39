//go:build postgres

package supervise

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// walProgram is archive_command and restore_command.
const walProgram = "howdah.dev/howdah/cmd/wal"

// TestMain runs the tests as PostgreSQL's user where we are root: the server refuses root, and its socket asks who we are.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() == 0 {
		unmount, melt := mountSmall(), mountFreezer()
		status := pgtest.AsPostgres(walProgram)
		unmount()
		melt()
		os.Exit(status)
	}
	if err := postmaster.AdoptOrphans(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go postmaster.Reap(context.Background())
	os.Exit(m.Run())
}
