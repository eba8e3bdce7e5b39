package main

import (
	"os"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/warden"
)

func wardenCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "warden",
		Short:  "Kill PostgreSQL when the agent doesn't say in time that it may go on",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return warden.Watch(os.Stdin, warden.Now, postmaster.Fence)
		},
	}
}
