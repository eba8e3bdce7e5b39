//go:build postgres

package supervise

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/walsocket"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// TestMain is the agent's archive_command and restore_command as well, and runs the tests as PostgreSQL's user where we are root: the server
// refuses root, and its socket asks who we are.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "archive-wal" {
		if err := walsocket.Archive(context.Background(), os.Getenv("TEST_SOCKET_DIR"), os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 5 && os.Args[1] == "fetch-wal" && os.Args[2] == "--replica" {
		if err := walsocket.Fetch(context.Background(), os.Getenv("TEST_SOCKET_DIR"), os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if os.Geteuid() == 0 {
		unmount := mountSmall()
		status := pgtest.AsPostgres()
		unmount()
		os.Exit(status)
	}
	if err := postmaster.AdoptOrphans(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go postmaster.Reap(context.Background())
	os.Exit(m.Run())
}
