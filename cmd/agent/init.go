package main

import (
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/clonejob"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make the first data generation of a cluster (in an init Job)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			worker := initialize.Worker{
				Volume: agentapi.VolumeDir, Run: postgres.Exec, Now: time.Now, Reports: initialize.InCluster, Secrets: agentapi.SecretsDir,
				ExtensionsDir: agentapi.ExtensionsDir, Clone: clonejob.Make,
			}
			return exit(job.Run(cmd.Context(), job.PodFiles(), worker.Init))
		},
	}
}
