package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"howdah.dev/howdah/cmd/kubectl-howdah/internal/backupcmd"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/bundle"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/instancelog"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/psql"
)

// openLogs opens logs at the API server of the target.
func (t target) openLogs() (func(namespace string) instancelog.Open, error) {
	pods, err := typedcorev1.NewForConfig(t.config)
	if err != nil {
		return nil, err
	}
	return func(namespace string) instancelog.Open {
		return func(ctx context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
			return pods.Pods(namespace).GetLogs(pod, options).Stream(ctx)
		}
	}, nil
}

func logsCommand(access *access) *cobra.Command {
	request, only, all, format := instancelog.Request{}, []string(nil), false, ""
	command := access.command("logs CLUSTER", "Show the logs of all instances as one, ordered by time", func(ctx context.Context, t target) error {
		open, err := t.openLogs()
		if err != nil {
			return err
		}
		if !slices.Contains(instancelog.Levels(), request.Level) {
			return fmt.Errorf("--level must be one of %s", strings.Join(instancelog.Levels(), ", "))
		}
		if request.Format = instancelog.Format(format); request.Format != instancelog.Text && request.Format != instancelog.JSON {
			return fmt.Errorf("--output must be %s or %s", instancelog.Text, instancelog.JSON)
		}
		request.Open = open(t.key.Namespace)
		request.Pods = func(ctx context.Context) ([]instancelog.Pod, error) {
			pods, err := instancelog.PodsOf(ctx, t.Client, t.key, all || len(only) > 0)
			return slices.DeleteFunc(pods, func(pod instancelog.Pod) bool { return len(only) > 0 && !slices.Contains(only, pod.Name) }), err
		}
		return request.Show(ctx, t.out(), t.cmd.ErrOrStderr())
	})
	command.Example = `  kubectl howdah logs shop --follow
  kubectl howdah logs shop --since 6h --level error --postgres
  kubectl howdah logs shop --instance shop-0 --previous   # of the container that ended before`
	flags := command.Flags()
	flags.BoolVarP(&request.Follow, "follow", "f", false, "continue with what is written from now on, also by pods that start later")
	flags.DurationVar(&request.Since, "since", time.Hour, "how far back; 0 shows everything that the nodes keep")
	flags.Int64Var(&request.Tail, "tail", -1, "how many lines of each pod at most; -1 shows all")
	flags.StringVar(&request.Level, "level", "info", "lowest level: "+strings.Join(instancelog.Levels(), ", "))
	flags.BoolVar(&request.PostgresOnly, "postgres", false, "only messages of the PostgreSQL server, and not those of the agent")
	flags.BoolVarP(&request.Previous, "previous", "p", false, "of the containers that ran before the present ones")
	flags.StringSliceVar(&only, "instance", nil, "only of these pods")
	flags.BoolVar(&all, "all", false, "also of the Jobs and Poolers of the cluster")
	flags.StringVarP(&format, "output", "o", string(instancelog.Text), "text, or json for the records as they are, with the name of the pod")
	return command
}

func psqlCommand(access *access) *cobra.Command {
	request := psql.Request{}
	command := access.writing("psql CLUSTER", "Start psql in the pod of the primary, as the superuser postgres", func(ctx context.Context, t target) error {
		request.Kubectl = access.kubectl()
		request.Terminal = term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
		args, err := request.Command(ctx, t.Client, t.key, t.more)
		if err != nil {
			return err
		}
		return become(args)
	})
	command.Use = "psql CLUSTER [-- ARGUMENTS OF PSQL]"
	command.Args = cobra.MinimumNArgs(1)
	command.Long = command.Short + `.

It runs kubectl exec, and needs the right to do that in the namespace.`
	command.Example = `  kubectl howdah psql shop
  kubectl howdah psql shop -- app -c "SELECT count(*) FROM orders"
  kubectl howdah psql shop --replica -- app < report.sql`
	command.Flags().StringVar(&request.Instance, "instance", "", "in the pod of this instance")
	command.Flags().BoolVar(&request.Replica, "replica", false, "in the pod of a replica that is ready")
	return command
}

// become replaces this process with kubectl, so that the terminal and its signals belong to kubectl alone.
func become(args []string) error {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("psql is started by kubectl, which must be in the PATH: %w", err)
	}
	return syscall.Exec(path, append([]string{"kubectl"}, args...), os.Environ())
}

func reportCommand(access *access) *cobra.Command {
	request, file := bundle.Request{Version: version}, ""
	command := access.command("report CLUSTER", "Write objects, events and logs into a zip file, without secrets, to show to somebody else", func(ctx context.Context, t target) error {
		open, err := t.openLogs()
		if err != nil {
			return err
		}
		request.Open, request.Now = open, time.Now()
		if file == "" {
			file = fmt.Sprintf("howdah-report-%s-%s-%s.zip", t.key.Namespace, t.key.Name, request.Now.UTC().Format("20060102T150405Z"))
		}
		return writeReport(ctx, t, request, file)
	})
	command.Flags().StringVarP(&file, "file", "f", "", "file to create; if not set, one in the current directory that is named after the cluster and the time")
	command.Flags().BoolVar(&request.Logs, "logs", true, "include logs")
	command.Flags().BoolVar(&request.UnredactedLogs, "unredacted-logs", false, "include the logs of instances even if spec.postgresql.log.redaction is Off")
	command.Flags().DurationVar(&request.Since, "since", 24*time.Hour, "how far back the logs go; 0 includes everything that the nodes keep")
	return command
}

// writeReport leaves no file if it fails, and overwrites none.
func writeReport(ctx context.Context, t target, request bundle.Request, file string) error {
	to, err := os.OpenFile(filepath.Clean(file), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	names, err := request.Write(ctx, t.Client, t.key, to)
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(to.Name()))
	}
	fmt.Fprintf(t.out(), "Wrote %d files into %s. README.txt in it says what is left out. Look through the report before you give it to somebody else.\n", len(names), file)
	if slices.Contains(names, "problems.txt") {
		fmt.Fprintln(t.out(), "Some things could not be read: problems.txt lists them.")
	}
	return nil
}

func backupCommand(access *access) *cobra.Command {
	request := backupcmd.Request{}
	command := access.writing("backup CLUSTER", "Create a Backup now, and report the result", func(ctx context.Context, t target) error {
		if request.Name == "" {
			request.Name = backupcmd.NameFor(t.key.Name, time.Now())
		}
		return request.Ask(ctx, t.Client, t.key, t.out())
	})
	command.Flags().StringVar(&request.Name, "name", "", "name of the Backup; if not set, that of the cluster with the time")
	command.Flags().BoolVar(&request.Incremental, "incremental", false, "copy only what has changed since the previous backup")
	command.Flags().BoolVar(&request.Hold, "hold", false, "keep the Backup until spec.hold is false, whatever the retention says")
	waitFlags(command, &request.Wait, &request.Timeout, "wait until it has ended", 2*time.Hour)
	return command
}
