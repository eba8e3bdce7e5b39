// Command howdah-backup lists, checks, restores and deletes backups with nothing but the bucket: it needs no Kubernetes. See
// docs/howdah-backup.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/connection"
	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/terminal"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	ctx, stop := interruptible(context.Background())
	a := &app{in: os.Stdin, out: os.Stdout, errOut: os.Stderr, getenv: os.Getenv, now: time.Now}
	status := a.execute(ctx, os.Args[1:])
	stop()
	os.Exit(status)
}

// interruptible ends with the first signal that asks for it; the second one kills at once.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(interrupted(s.(syscall.Signal)))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// app is one run of the program.
type app struct {
	in          *os.File
	out, errOut io.Writer
	screen      *os.File // that errOut is; nil: it is none
	getenv      func(string) string
	now         func() time.Time

	place   connection.Flags
	filter  lookup.Filter
	output  string
	quiet   bool
	deletes bool // the command is one that does
	started bool // the command line was understood
}

// execute runs one command line and returns the exit status.
func (a *app) execute(ctx context.Context, args []string) int {
	a.screen, _ = a.errOut.(*os.File)
	a.out, a.errOut = terminal.Clean(a.out), terminal.Clean(a.errOut) // much of what is shown comes from a bucket
	root := a.command()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if !a.started && !errors.Is(err, connection.ErrUsage) {
		err = fmt.Errorf("%w: %w", errUsage, err)
	}
	if text := sentence(err); text != "" {
		fmt.Fprintln(a.errOut, "howdah-backup:", text)
	}
	if command != nil && command.Name() == walGetName && command.HasParent() && command.Parent().Name() == "wal" {
		return restoreCommandStatus(err)
	}
	return exitStatus(err)
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "howdah-backup",
		Short:         "List, verify, restore and delete backups with access to the bucket alone",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	a.place.Add(root)
	flags := root.PersistentFlags()
	flags.StringVar(&a.filter.Lineage, "lineage", "", "only this lineage")
	flags.StringVar(&a.filter.Namespace, "namespace", "", "only clusters in this namespace")
	flags.StringVar(&a.filter.Cluster, "cluster", "", "only clusters with this name")
	flags.StringVarP(&a.output, "output", "o", formatTable, "output format: table or json")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "show no progress")
	root.AddCommand(a.listCommand(), a.showCommand(), a.verifyCommand(), a.restoreCommand(), a.walCommand(), a.deleteCommand())
	return root
}

const (
	formatTable = "table"
	formatJSON  = "json"
)

// run makes a RunE of what a command does: from here on the command line counts as understood.
func (a *app) run(do func(ctx context.Context, store objstore.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.output != formatTable && a.output != formatJSON {
			return fmt.Errorf("--output %q: use %s or %s", a.output, formatTable, formatJSON)
		}
		place, err := a.place.Resolve(a.getenv)
		if err != nil {
			return err
		}
		store, err := place.Open(cmd.Context(), !a.deletes)
		if err != nil {
			return err
		}
		a.started = true
		return do(cmd.Context(), store, args)
	}
}

// meter shows progress, on a terminal as a bar.
func (a *app) meter() *display.Meter {
	return display.NewMeter(a.screen, a.quiet || a.screen == nil)
}
