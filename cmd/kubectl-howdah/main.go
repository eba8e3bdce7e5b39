// Command kubectl-howdah is a plugin of kubectl: `kubectl howdah` shows a PostgresCluster as a person wants to see it, asks
// for another primary or a new clone of a replica, and stops and wakes it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/failover"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/hibernatecmd"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/history"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/pause"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/reinit"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/status"
	"howdah.dev/howdah/cmd/kubectl-howdah/internal/switchover"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl howdah:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	access := &access{rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}}
	root := &cobra.Command{
		Use:           "kubectl-howdah",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl howdah"},
		Short:         "Inspect and control PostgresClusters",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&access.rules.ExplicitPath, "kubeconfig", "", "kubeconfig file")
	flags.StringVar(&access.overrides.CurrentContext, "context", "", "context of the kubeconfig")
	flags.StringVarP(&access.overrides.Context.Namespace, "namespace", "n", "", "namespace of the cluster")
	root.AddCommand(statusCommand(access), switchoverCommand(access), failoverCommand(access), reinitCommand(access), pauseCommand(access), resumeCommand(access),
		historyCommand(access), rollbackCommand(access),
		hibernateCommand(access, true, "hibernate CLUSTER", "Stop all instances of a cluster and keep their volumes"),
		hibernateCommand(access, false, "wake CLUSTER", "Start a hibernated cluster"))
	return root
}

// access is how the flags say that the API server is reached.
type access struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
}

// cluster makes a client, and says which object a name means.
func (a *access) cluster(name string) (client.Client, client.ObjectKey, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(a.rules, a.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, client.ObjectKey{}, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, client.ObjectKey{}, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, client.ObjectKey{}, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	return c, client.ObjectKey{Namespace: namespace, Name: name}, err
}

func statusCommand(access *access) *cobra.Command {
	return &cobra.Command{
		Use:   "status CLUSTER",
		Short: "Show the instances of a cluster, its replication, archive and poolers, and what it waits for",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			cluster := &v1alpha1.PostgresCluster{}
			if err := c.Get(cmd.Context(), key, cluster); err != nil {
				return err
			}
			poolers := &v1alpha1.PoolerList{}
			if err := c.List(cmd.Context(), poolers, client.InNamespace(key.Namespace)); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
				return err // who may see the cluster alone sees that
			}
			return status.Print(cmd.OutOrStdout(), cluster, poolers.Items, time.Now())
		},
	}
}

func switchoverCommand(access *access) *cobra.Command {
	request := switchover.Request{}
	command := &cobra.Command{
		Use:   "switchover CLUSTER",
		Short: "Make another instance the primary, and report the result",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			request.Token = newToken()
			return request.Ask(cmd.Context(), c, key, cmd.OutOrStdout())
		},
	}
	command.Flags().StringVar(&request.To, "to", "", "instance that becomes the primary; if not set, the replica that is furthest ahead")
	command.Flags().BoolVar(&request.Wait, "wait", true, "wait until it is done or refused")
	command.Flags().DurationVar(&request.Timeout, "timeout", 2*time.Minute, "how long to wait")
	return command
}

func failoverCommand(access *access) *cobra.Command {
	request := failover.Request{}
	command := &cobra.Command{
		Use:   "failover CLUSTER",
		Short: "Decide which instance goes on when the agents can't, after saying what would be lost",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			request.In, request.Out = cmd.InOrStdin(), cmd.OutOrStdout()
			return request.Carry(cmd.Context(), c, key)
		},
	}
	command.Flags().StringVar(&request.To, "to", "", "instance that becomes the primary; if not set, the running one that had most of the WAL")
	command.Flags().StringVar(&request.PoweredOff, "powered-off", "", "the last primary, if you have powered off its machine and Kubernetes doesn't know")
	command.Flags().BoolVar(&request.Yes, "yes", false, "don't ask; what would be lost is still printed")
	command.Flags().DurationVar(&request.Timeout, "timeout", time.Minute, "how long to wait until it has taken the lease")
	return command
}

func reinitCommand(access *access) *cobra.Command {
	request := reinit.Request{}
	command := &cobra.Command{
		Use:   "reinit CLUSTER INSTANCE",
		Short: "Clone one replica again from the primary, and report the result",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			request.Instance, request.Token = args[1], newToken()
			return request.Ask(cmd.Context(), c, key, cmd.OutOrStdout())
		},
	}
	command.Flags().BoolVar(&request.AllowFewerReplicas, "allow-fewer-replicas", false, "go on although too few other replicas stream")
	command.Flags().BoolVar(&request.Wait, "wait", true, "wait until it is done, refused or has failed")
	command.Flags().DurationVar(&request.Timeout, "timeout", 2*time.Hour, "how long to wait")
	return command
}

// newToken distinguishes a request from all before.
func newToken() string { return "kubectl-" + time.Now().UTC().Format("20060102T150405.000000000") }

func pauseCommand(access *access) *cobra.Command {
	request := pause.Request{}
	command := &cobra.Command{
		Use:   "pause CLUSTER",
		Short: "Pause automatic repair of a cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			return request.Begin(cmd.Context(), c, key, time.Now(), cmd.OutOrStdout())
		},
	}
	command.Flags().DurationVar(&request.For, "for", time.Hour, "how long, 24h at most")
	command.Flags().BoolVar(&request.Failover, "failover", false, "pause automatic failover as well")
	return command
}

func resumeCommand(access *access) *cobra.Command {
	return &cobra.Command{
		Use:   "resume CLUSTER",
		Short: "End a pause of repairs and of failover",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			return pause.End(cmd.Context(), c, key, cmd.OutOrStdout())
		},
	}
}

func historyCommand(access *access) *cobra.Command {
	return &cobra.Command{
		Use:   "history CLUSTER",
		Short: "List the last specs with which a cluster was Ready, and what each changed",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			return history.Show(cmd.Context(), c, key, cmd.OutOrStdout())
		},
	}
}

func rollbackCommand(access *access) *cobra.Command {
	request := history.Rollback{}
	command := &cobra.Command{
		Use:   "rollback CLUSTER",
		Short: "Return the spec of a cluster to one with which it was Ready, after saying what changes and what can't",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			request.In, request.Out = cmd.InOrStdin(), cmd.OutOrStdout()
			return request.Carry(cmd.Context(), c, key)
		},
	}
	command.Flags().Int64Var(&request.To, "to", 0, "revision, as kubectl howdah history lists it; if not set, the last one that differs from the spec")
	command.Flags().BoolVar(&request.Yes, "yes", false, "don't ask; what changes is still printed")
	return command
}

func hibernateCommand(access *access, asleep bool, use, short string) *cobra.Command {
	request := hibernatecmd.Request{Hibernate: asleep}
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := access.cluster(args[0])
			if err != nil {
				return err
			}
			return request.Ask(cmd.Context(), c, key, cmd.OutOrStdout())
		},
	}
	command.Flags().BoolVar(&request.Wait, "wait", true, "wait until it is done")
	command.Flags().DurationVar(&request.Timeout, "timeout", 5*time.Minute, "how long to wait")
	return command
}
