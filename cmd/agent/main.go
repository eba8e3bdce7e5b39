// Command agent is process 1 of every database pod, and the worker of every Job: it supervises PostgreSQL, archives its
// WAL, and makes, copies, restores and upgrades data directories. See docs/architecture.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// version is set when the binary is built.
var version = "dev"

// commands are the subcommands, each in the file of its name.
var commands = []func() *cobra.Command{
	installCommand,
	initCommand,
	inspectCommand,
	imageCommand,
	runCommand,
	backupCommand,
	verifyCommand,
	drillCommand,
	failoverDrillCommand,
	upgradeCommand,
	restoreCommand,
	tablesCommand,
	watchdogCommand,
	poolerCommand,
}

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: logLevel()})))
	err := root().ExecuteContext(context.Background())
	status := exitStatus(0)
	switch {
	case errors.As(err, &status):
		os.Exit(int(status))
	case err != nil:
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	root := &cobra.Command{
		Use:           "agent",
		Short:         "Supervise PostgreSQL in a pod, and do the work of Howdah's Jobs",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, command := range commands {
		root.AddCommand(command())
	}
	return root
}

// exitStatus is the error of a command that has said everything already.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exit makes what job.Run returns the command's end.
func exit(status int) error {
	if status == 0 {
		return nil
	}
	return exitStatus(status)
}

func logLevel() slog.Level {
	level := slog.LevelInfo
	if text := os.Getenv("HOWDAH_LOG_LEVEL"); text != "" {
		_ = level.UnmarshalText([]byte(text)) // an unknown one is info
	}
	return level
}
