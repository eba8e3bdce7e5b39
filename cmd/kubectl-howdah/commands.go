package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/failover"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/hibernatecmd"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/history"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/pause"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/reinit"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/status"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/switchover"
)

func (t target) out() io.Writer { return t.cmd.OutOrStdout() }

func statusCommand(access *access) *cobra.Command {
	return access.command("status CLUSTER", "Show the instances of a cluster, its replication, archive and poolers, and what it waits for",
		func(ctx context.Context, t target) error {
			cluster := &v1alpha1.PostgresCluster{}
			if err := t.Get(ctx, t.key, cluster); err != nil {
				return err
			}
			poolers := &v1alpha1.PoolerList{}
			if err := t.List(ctx, poolers, client.InNamespace(t.key.Namespace)); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
				return err // who may see the cluster alone sees that
			}
			return status.Print(t.out(), cluster, poolers.Items, time.Now())
		})
}

func switchoverCommand(access *access) *cobra.Command {
	request := switchover.Request{}
	command := access.writing("switchover CLUSTER", "Make another instance the primary, and report the result",
		func(ctx context.Context, t target) error {
			request.Token = newToken()
			return request.Ask(ctx, t.Client, t.key, t.out())
		})
	command.Flags().StringVar(&request.To, "to", "", "instance that becomes the primary; if not set, the replica that is furthest ahead")
	waitFlags(command, &request.Wait, &request.Timeout, "wait until it is done or refused", 2*time.Minute)
	return command
}

// waitFlags are those of a request that a person may wait for.
func waitFlags(command *cobra.Command, wait *bool, timeout *time.Duration, until string, usually time.Duration) {
	command.Flags().BoolVar(wait, "wait", true, until)
	command.Flags().DurationVar(timeout, "timeout", usually, "how long to wait")
}

func failoverCommand(access *access) *cobra.Command {
	request := failover.Request{}
	command := access.writing("failover CLUSTER", "Decide which instance continues when the agents can't, after saying what would be lost",
		func(ctx context.Context, t target) error {
			request.In, request.Out = t.cmd.InOrStdin(), t.out()
			return request.Carry(ctx, t.Client, t.key)
		})
	command.Flags().StringVar(&request.To, "to", "", "instance that becomes the primary; if not set, the running one that had most of the WAL, if that is known")
	command.Flags().StringVar(&request.PoweredOff, "powered-off", "", "the last primary, if you have powered off its machine and Kubernetes doesn't know")
	command.Flags().BoolVar(&request.Yes, "yes", false, "no confirmation; what would be lost is still printed")
	command.Flags().DurationVar(&request.Timeout, "timeout", time.Minute, "how long to wait until it has taken the lease")
	return command
}

func reinitCommand(access *access) *cobra.Command {
	request := reinit.Request{}
	command := access.writing("reinit CLUSTER INSTANCE", "Clone one replica again from the primary, and report the result",
		func(ctx context.Context, t target) error {
			request.Instance, request.Token = t.more[0], newToken()
			return request.Ask(ctx, t.Client, t.key, t.out())
		})
	command.Flags().BoolVar(&request.AllowFewerReplicas, "allow-fewer-replicas", false, "continue although too few other replicas stream")
	waitFlags(command, &request.Wait, &request.Timeout, "wait until it is done, refused or has failed", 2*time.Hour)
	return command
}

// newToken distinguishes a request from all before.
func newToken() string { return "kubectl-" + time.Now().UTC().Format("20060102T150405.000000000") }

func pauseCommand(access *access) *cobra.Command {
	request := pause.Request{}
	command := access.writing("pause CLUSTER", "Pause automatic repair of a cluster", func(ctx context.Context, t target) error {
		return request.Begin(ctx, t.Client, t.key, time.Now(), t.out())
	})
	command.Flags().DurationVar(&request.For, "for", time.Hour, "how long, 24h at most")
	command.Flags().BoolVar(&request.Failover, "failover", false, "pause automatic failover as well")
	waitFlags(command, &request.Wait, &request.Timeout, "wait until the pause has begun", time.Minute)
	return command
}

func resumeCommand(access *access) *cobra.Command {
	return access.writing("resume CLUSTER", "End a pause of repairs and of failover", func(ctx context.Context, t target) error {
		return pause.End(ctx, t.Client, t.key, t.out())
	})
}

func historyCommand(access *access) *cobra.Command {
	return access.command("history CLUSTER", "List the last specs with which a cluster was Ready, and what each changed",
		func(ctx context.Context, t target) error {
			return history.Show(ctx, t.Client, t.key, t.out())
		})
}

func rollbackCommand(access *access) *cobra.Command {
	request := history.Rollback{}
	command := access.writing("rollback CLUSTER", "Return the spec of a cluster to one with which it was Ready, after saying what changes and what can't",
		func(ctx context.Context, t target) error {
			request.In, request.Out = t.cmd.InOrStdin(), t.out()
			return request.Carry(ctx, t.Client, t.key)
		})
	command.Flags().Int64Var(&request.To, "to", 0, "revision, as kubectl howdah history lists it; if not set, the last one that differs from the spec")
	command.Flags().BoolVar(&request.Yes, "yes", false, "no confirmation; what changes is still printed")
	return command
}

func hibernateCommand(access *access, asleep bool, use, short string) *cobra.Command {
	request := hibernatecmd.Request{Hibernate: asleep}
	command := access.writing(use, short, func(ctx context.Context, t target) error {
		request.In = t.cmd.InOrStdin()
		return request.Ask(ctx, t.Client, t.key, t.out())
	})
	if asleep {
		command.Flags().BoolVar(&request.Yes, "yes", false, "no confirmation, although the cluster accepts connections")
	}
	waitFlags(command, &request.Wait, &request.Timeout, "wait until it is done", 5*time.Minute)
	return command
}
