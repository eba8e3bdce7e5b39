package manager

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/repostore/location"
	"howdah.dev/howdah/pkg/workload"
)

// Program is a controller's process.
type Program struct {
	Name, Short, Version string
	// Cached says how the cache treats kinds that are not ours; see New.
	Cached map[client.Object]cache.ByObject
	// PostgresImages: it takes --postgres-images.
	PostgresImages bool
	// PgBouncerImage: it takes --pgbouncer-image.
	PgBouncerImage bool
	// CloudIdentity: it takes --cloud-identity-grants.
	CloudIdentity bool
	// Flags adds flags of its own; nil: it has none.
	Flags func(*pflag.FlagSet)
	// Setup registers all that the process does.
	Setup func(ctx context.Context, mgr ctrl.Manager, dependencies Dependencies) error
}

// Settings are flags that not every controller has.
type Settings struct {
	Agent  workload.Agent
	Images Images
	// PgBouncer is the image of poolers.
	PgBouncer string
	// Grants of the controller's own cloud identity.
	Grants location.Grants
}

// memProfileRate is Go's own: a sample for this many bytes.
const memProfileRate = 512 << 10

// Main runs the program until it is told to end, and ends the process if it fails.
func (p Program) Main() {
	runtime.MemProfileRate = 0 // keeping the profile costs two MiB
	if err := p.command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

func (p Program) command() *cobra.Command {
	var options Options
	var settings Settings
	var images []string
	var grants string
	cmd := &cobra.Command{
		Use: p.Name, Short: p.Short, Version: p.Version, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if settings.Images, err = ParseImages(images); err != nil {
				return err
			}
			if settings.Grants, err = location.ParseGrants(grants); err != nil {
				return err
			}
			return p.run(cmd.Context(), options, settings)
		},
	}
	options.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&settings.Agent.Image, "agent-image", "", "image from which database pods and Jobs get the agent")
	cmd.Flags().BoolVar(&settings.Agent.Mounted, "agent-image-volume", false,
		"mount the agent's image as a volume into database pods and Jobs, instead of starting a container in each that copies the agent")
	cmd.Flags().BoolVar(&settings.Agent.MountedInJobs, "agent-image-volume-in-jobs", false,
		"the same, but only into the pods of Jobs")
	if p.PostgresImages {
		cmd.Flags().StringSliceVar(&images, "postgres-images", nil, "images of PostgreSQL by major version, such as 17=IMAGE,18=IMAGE")
	}
	if p.PgBouncerImage {
		cmd.Flags().StringVar(&settings.PgBouncer, "pgbouncer-image", "", "image of PgBouncer")
	}
	if p.CloudIdentity {
		cmd.Flags().StringVar(&grants, "cloud-identity-grants", "", `which BackupRepositories without credentials may use the cloud identity of this process, such as [{"namespace":"shop","bucket":"backups","prefix":"shop/"}]; none if not set`)
	}
	if p.Flags != nil {
		p.Flags(cmd.Flags())
	}
	if err := cmd.MarkFlagRequired("agent-image"); err != nil {
		panic(err) // the flag is registered some lines above
	}
	return cmd
}

func (p Program) run(ctx context.Context, options Options, settings Settings) error {
	keepMemorySmall()
	if options.ProfileAddress != "" {
		runtime.MemProfileRate = memProfileRate
	}
	mgr, err := New(p.Name, options, p.Cached)
	if err != nil {
		return err
	}
	if err := p.Setup(ctx, mgr, NewDependencies(mgr, p.Name, settings)); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := mgr.Add(giveBackOnceStarted(mgr)); err != nil {
		return err
	}
	ctrl.Log.Info("Starting", "version", p.Version)
	return mgr.Start(ctx)
}
