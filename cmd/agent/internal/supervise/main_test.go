//go:build postgres

package supervise

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/walsocket"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestMain is the agent's archive_command and restore_command as well, and runs the tests as PostgreSQL's user where we are root: the server
// refuses root, and its socket asks who we are.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == walsocket.VerbArchive || os.Args[1] == walsocket.VerbFetchReplica) {
		os.Exit(walsocket.Command(os.Args[1:]))
	}
	flag.Parse()
	if os.Geteuid() == 0 {
		unmount, melt := mountSmall(), mountFreezer()
		status := pgtest.AsPostgres()
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
