package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/walsocket"
	"howdah.dev/howdah/pkg/agentapi"
)

func archiveCommand() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "archive-wal PATH",
		Short: "Have the running agent archive one file (archive_command)",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			// PostgreSQL ends the command by SIGQUIT when it shuts down at once: no reason to print every goroutine.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGQUIT, syscall.SIGTERM)
			defer stop()
			err := walsocket.Archive(ctx, dir, args[0])
			if errors.Is(err, walsocket.ErrGivenUp) {
				return exit(archiveGivenUp)
			}
			return err
		},
	}
	socketFlag(command, &dir)
	return command
}

// archiveGivenUp is an exit status of archive_command, one of those from 129 on: with them the archiver ends, where with any
// other it would try twice again, a second later each.
const archiveGivenUp = 200

// Exit statuses of restore_command: 1 means that the archive has no such file, more than 125 ends recovery.
const (
	fetchNotArchived = 1
	fetchFailed      = 200
)

func fetchCommand() *cobra.Command {
	var dir string
	var replica bool
	command := &cobra.Command{
		Use:   "fetch-wal NAME PATH",
		Short: "Have the running agent or worker fetch one file from the archive (restore_command)",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := walsocket.Fetch(cmd.Context(), dir, args[0], args[1])
			switch {
			case err == nil:
				return nil
			case errors.Is(err, walsocket.ErrNotArchived):
				return exit(fetchNotArchived)
			}
			fmt.Fprintln(os.Stderr, "agent:", err)
			if replica {
				return exit(fetchNotArchived)
			}
			return exit(fetchFailed)
		},
	}
	socketFlag(command, &dir)
	command.Flags().BoolVar(&replica, "replica", false, "for a server that asks its primary where this fails: recovery doesn't end then")
	return command
}

func socketFlag(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "socket-dir", agentapi.SocketDir, "folder of the agent's socket")
}
