package main

import (
	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/inspectjob"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

func inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect",
		Short: "Say what is on a volume, before anything is started on it (in a Job)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			worker := inspectjob.Worker{Volume: agentapi.VolumeDir, Run: postgres.Exec}
			return exit(job.Run(cmd.Context(), job.PodFiles(), worker.Inspect))
		},
	}
}
