package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/drilljob"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

func drillCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drill", Short: "Look at a cluster that was restored aside, in a Job", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit(job.Run(cmd.Context(), job.PodFiles(), runDrill))
		},
	}
}

func runDrill(ctx context.Context, task agentapi.DrillJob) (agentapi.DrillResult, error) {
	none := agentapi.DrillResult{}
	programs, err := postgres.BinDir(ctx, postgres.Exec, task.MajorVersion)
	if err != nil {
		return none, job.Final(drilljob.ReasonBadImage, err)
	}
	superuser, err := drilljob.Superuser(task, "/tmp/drill")
	if err != nil {
		return none, err
	}
	worker := drilljob.Worker{
		BinDir: programs, Superuser: superuser, Server: drilljob.Server(task.Host),
		StatementTimeout: time.Hour, LockTimeout: time.Minute,
		Patience: 2 * time.Minute, Pause: 2 * time.Second, Now: time.Now,
	}
	slog.Info("looking at the restored cluster", "host", task.Host, "assertions", len(task.Assertions))
	result, err := worker.Run(ctx, task)
	if err == nil {
		slog.Info("looked at the restored cluster", "seconds", result.Seconds, "damaged", result.CorruptCount, "failedAssertions", result.FailedCount)
	}
	return result, err
}
