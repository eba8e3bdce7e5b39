// restore-controller brings clusters back to a point in time: it plans in the bucket, and one Job for each Restore works.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/restore-controller/internal/restore"
	"howdah.dev/howdah/pkg/manager"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "restore-controller:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var options manager.Options
	var agentImage string
	var images []string
	cmd := &cobra.Command{
		Use: "restore-controller", Short: "Brings PostgresClusters back to a point in time",
		Version: version, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			known, err := manager.ParseImages(images)
			if err != nil {
				return err
			}
			mgr, err := manager.New("restore-controller", options, cached())
			if err != nil {
				return err
			}
			if err := restore.New(mgr, agentImage, known).SetupWithManager(mgr); err != nil {
				return err
			}
			return mgr.Start(cmd.Context())
		},
	}
	options.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&agentImage, "agent-image", "", "image of the agent")
	cmd.Flags().StringSliceVar(&images, "postgres-images", nil, "images of PostgreSQL by major version, such as 17=IMAGE,18=IMAGE")
	if err := cmd.MarkFlagRequired("agent-image"); err != nil {
		panic(err) // the flag is registered one line above
	}
	return cmd
}

// cached keeps only what Howdah made in memory.
func cached() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})}
	return map[client.Object]cache.ByObject{&batchv1.Job{}: ours, &corev1.Pod{}: ours}
}
