package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/watchdog"
)

func watchdogCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "watchdog",
		Short:  "Kill PostgreSQL when the agent doesn't say in time that it may continue",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			if err := watchdog.LockMemory(); err != nil {
				slog.Warn("the watchdog's memory may be swapped out", "reason", err)
			}
			return watchdog.Watch(os.Stdin, watchdog.Now, endServer)
		},
	}
}

// endServer ends a server whose permission has run out. When that was long ago, as after the machine was frozen, another one may
// accept writes by now.
func endServer(pgdata string, late time.Duration) {
	if late > watchdog.Punctual { // else the server still has the time that Fence gives it
		postmaster.KillAll(pgdata)
		return
	}
	postmaster.Fence(pgdata)
}
