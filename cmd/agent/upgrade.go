package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/upgradejob"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

func upgradeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "upgrade", Short: "Upgrade data to a higher major version, in a Job"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "check", Short: "Find out whether the upgrade would work, while the database serves", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return exit(job.Run(cmd.Context(), job.PodFiles(), checkUpgrade))
			},
		},
		&cobra.Command{
			Use: "run", Short: "Write an upgraded data generation on the locked volume", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return exit(job.Run(cmd.Context(), job.PodFiles(), runUpgrade))
			},
		},
		&cobra.Command{
			Use: "inspect", Short: "Say where the data on the locked volume ends", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return exit(job.Run(cmd.Context(), job.PodFiles(), inspectForUpgrade))
			},
		},
		&cobra.Command{
			Use: "copy-image", Short: "Copy what the upgrade needs of the image that this container runs in", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return upgradejob.CopyImage("/", agentapi.OldImageDir) },
		},
	)
	return cmd
}

// upgradeWorker works for the task's object. Sockets lie in its scratch folder, so the path is short.
func upgradeWorker(ctx context.Context, task agentapi.UpgradeJob) (upgradejob.Worker, func(), error) {
	client, err := kube.InCluster()
	if err != nil {
		return upgradejob.Worker{}, nil, err
	}
	scratch := "/tmp/upgrade"
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return upgradejob.Worker{}, nil, err
	}
	reporter := job.NewReporter(ctx, client, task.Object)
	return upgradejob.Worker{
		Volume: agentapi.VolumeDir, OldRoot: agentapi.OldImageDir, Scratch: scratch, PreloadLibraries: task.PreloadLibraries, OutputPlugins: task.OutputPlugins,
		Run: postgres.Exec, Now: time.Now, Report: reporter.Report, ExtensionsDir: agentapi.ExtensionsDir,
	}, reporter.Close, nil
}

func runUpgrade(ctx context.Context, task agentapi.UpgradeJob) (agentapi.UpgradeResult, error) {
	worker, done, err := upgradeWorker(ctx, task)
	if err != nil {
		return agentapi.UpgradeResult{}, err
	}
	defer done()
	return worker.Upgrade(ctx, task)
}

// inspectForUpgrade has no access to the API server: it is done in a moment.
func inspectForUpgrade(ctx context.Context, task agentapi.UpgradeJob) (agentapi.UpgradeInspection, error) {
	return upgradejob.Worker{Volume: agentapi.VolumeDir, Run: postgres.Exec}.Inspect(ctx, task)
}

func checkUpgrade(ctx context.Context, task agentapi.UpgradeJob) (agentapi.UpgradeCheckResult, error) {
	worker, done, err := upgradeWorker(ctx, task)
	if err != nil {
		return agentapi.UpgradeCheckResult{}, err
	}
	defer done()
	connect, err := upgradeConnection(task)
	if err != nil {
		return agentapi.UpgradeCheckResult{}, err
	}
	return worker.Check(ctx, task, connect)
}

// upgradeConnection connects as the role that may read everything and change nothing. libpq insists on a key that
// only its owner can read, which a mounted Secret isn't.
func upgradeConnection(task agentapi.UpgradeJob) (*pgx.ConnConfig, error) {
	key, err := os.ReadFile(filepath.Join(agentapi.ClientTLSDir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	if err := os.WriteFile(upgradejob.KeyFile, key, 0o600); err != nil {
		return nil, err
	}
	return pgx.ParseConfig(upgradejob.ConnectionString(task) + " dbname=postgres")
}
