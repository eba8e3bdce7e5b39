// Command kubectl-howdah is a plugin of kubectl: `kubectl howdah` shows a PostgresCluster, its logs and its SQL prompt to a person, asks for
// backups, another primary or a new clone of a replica, and stops and wakes it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/terminal"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(terminal.Clean(os.Stderr), "kubectl howdah:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	access := newAccess()
	root := &cobra.Command{
		Use:           "kubectl-howdah",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl howdah"},
		Short:         "Inspect and control PostgresClusters",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(terminal.Clean(os.Stdout)) // a status may quote a bucket, a server or a tenant
	root.SetErr(terminal.Clean(os.Stderr))
	flags := root.PersistentFlags()
	flags.StringVar(&access.rules.ExplicitPath, "kubeconfig", "", "kubeconfig file")
	flags.StringVar(&access.overrides.CurrentContext, "context", "", "context of the kubeconfig")
	flags.StringVarP(&access.overrides.Context.Namespace, "namespace", "n", "", "namespace of the cluster")
	root.AddCommand(statusCommand(access), logsCommand(access), psqlCommand(access), reportCommand(access), backupCommand(access), switchoverCommand(access), failoverCommand(access), reinitCommand(access), pauseCommand(access), resumeCommand(access),
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

func newAccess() *access {
	return &access{rules: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}}
}

// target makes a client, and says which object a name means.
func (a *access) target(name string) (target, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(a.rules, a.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return target{}, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return target{}, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return target{}, err
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	return target{Client: c, config: config, key: client.ObjectKey{Namespace: namespace, Name: name}}, err
}

// kubectl are the flags that lead kubectl to the same API server.
func (a *access) kubectl() (flags []string) {
	if a.rules.ExplicitPath != "" {
		flags = append(flags, "--kubeconfig", a.rules.ExplicitPath)
	}
	if a.overrides.CurrentContext != "" {
		flags = append(flags, "--context", a.overrides.CurrentContext)
	}
	return flags
}

// target is the cluster that a command is about.
type target struct {
	client.Client
	config *rest.Config
	key    client.ObjectKey
	cmd    *cobra.Command
	// more are the arguments after the cluster's name.
	more []string
}

// writing is a command that changes something, after saying of which cluster: the context may be another one than the person believes.
func (a *access) writing(use, short string, run func(context.Context, target) error) *cobra.Command {
	return a.command(use, short, func(ctx context.Context, t target) error {
		fmt.Fprintf(t.cmd.ErrOrStderr(), "PostgresCluster %s in namespace %s, %s\n", t.key.Name, t.key.Namespace, a.context())
		return run(ctx, t)
	})
}

// context is the one of the kubeconfig that is used.
func (a *access) context() string {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(a.rules, a.overrides).RawConfig()
	if name := cmp.Or(a.overrides.CurrentContext, config.CurrentContext); err == nil && name != "" {
		return "context " + name
	}
	return "without a context of a kubeconfig"
}

// command is one about a cluster, whose name is the first of the arguments that use names.
func (a *access) command(use, short string, run func(context.Context, target) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(len(strings.Fields(use)) - 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.target(args[0])
			if err != nil {
				return err
			}
			t.cmd, t.more = cmd, args[1:]
			return run(cmd.Context(), t)
		},
	}
}
