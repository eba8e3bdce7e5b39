package main

import (
	"os"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/imagetrial"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

func imageCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "image",
		Short: "Find out whether an image can run a cluster (in a Job without its volume)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const scratch = "/tmp/image"
			if err := os.MkdirAll(scratch, 0o700); err != nil {
				return err
			}
			worker := imagetrial.Worker{Scratch: scratch, Run: postgres.Exec, ExtensionsDir: agentapi.ExtensionsDir}
			return exit(job.Run(cmd.Context(), job.PodFiles(), worker.Try))
		},
	}
}
