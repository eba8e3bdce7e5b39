package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/kube"
	"howdah.dev/howdah/cmd/agent/internal/remote"
	"howdah.dev/howdah/cmd/agent/internal/tablesjob"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

func tablesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tables", Short: "Bring tables of a temporary copy back into a running cluster, in a Job", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit(job.Run(cmd.Context(), job.PodFiles(), runTables))
		},
	}
}

// tablesScratch is where the Job has files, none of which has rows.
const tablesScratch = "/tmp/tables"

func runTables(ctx context.Context, task agentapi.TablesJob) (agentapi.TablesResult, error) {
	none := agentapi.TablesResult{}
	programs, err := postgres.BinDir(ctx, postgres.Exec, task.MajorVersion)
	if err != nil {
		return none, job.Final(tablesjob.ReasonBadImage, err)
	}
	if err := os.MkdirAll(tablesScratch, 0o700); err != nil {
		return none, err
	}
	application, err := secretKey(task.AccessSecret, "dbname")
	if err != nil {
		return none, err
	}
	client, err := kube.InCluster()
	if err != nil && !errors.Is(err, kube.ErrOutside) {
		return none, err
	}
	reporter := job.NewReporter(ctx, client, task.Object)
	defer reporter.Close()
	database := cmp.Or(task.Database, application)
	worker := tablesjob.Worker{
		Task: task, BinDir: programs, Database: database, IntoDatabase: cmp.Or(task.IntoDatabase, database), Scratch: tablesScratch,
		Target: tablesjob.Side{
			Name: "the running cluster", MajorVersion: task.MajorVersion,
			Connection: secretLogin(task.AccessSecret, task.CredentialsSecret, "target", task.MajorVersion),
		},
		Report: reporter.Report, Now: time.Now, Attempts: 6, Patience: 5 * time.Minute, Pause: 5 * time.Second, LockTimeout: 10 * time.Second,
	}
	if task.Copy != nil {
		worker.Copy = tablesjob.Side{
			Name: "the copy", MajorVersion: task.Copy.MajorVersion,
			Connection: secretLogin(task.Copy.SuperuserSecret, task.Copy.SuperuserSecret, "copy", task.Copy.MajorVersion), Settling: true,
		}
	}
	slog.Info("restoring into a running cluster", "database", worker.IntoDatabase, "checkOnly", task.CheckOnly)
	result, err := worker.Run(ctx)
	if err == nil {
		slog.Info("done", "restored", result.RestoredCount, "rows", result.Rows, "seconds", result.Seconds)
	}
	return result, err
}

// secretLogin reads where a server is from one Secret, and who logs in from another, each time: both may change.
func secretLogin(access, credentials, name string, major int) func() (string, error) {
	return func() (string, error) {
		values := map[string]string{}
		for key, secret := range map[string]string{"host": access, "port": access, "ca.crt": access, "username": credentials, "password": credentials} {
			value, err := secretKey(secret, key)
			if err != nil {
				return "", err
			}
			values[key] = value
		}
		return remote.Login{
			Host: values["host"], Port: values["port"], User: values["username"], Password: values["password"],
			CA: filepath.Join(agentapi.SecretsDir, access, "ca.crt"),
		}.Connection(filepath.Join(tablesScratch, name), postgres.SessionSettings(major))
	}
}

// secretKey reads a key of a Secret that is mounted.
func secretKey(secret, key string) (string, error) {
	content, err := os.ReadFile(filepath.Join(agentapi.SecretsDir, secret, key))
	if errors.Is(err, fs.ErrNotExist) {
		return "", job.Fail(tablesjob.ReasonRoleUnsuitable, fmt.Errorf("there is no Secret %s with the key %s: create it, or name another one in spec.destination.intoCluster.credentials", secret, key))
	}
	return strings.TrimRight(string(content), "\r\n"), err
}
