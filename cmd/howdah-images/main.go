// Command howdah-images builds the container images of the suite without a daemon and without a base image:
// a static binary each, and a small one beside the agent, on top of nothing but certificates and a user. The same source gives the same digest.
// It also writes whole releases, which have much more in them, and publishes and verifies them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/cmd/howdah-images/internal/image"
)

// names are the binaries that have an image; each is built from cmd/NAME.
var names = []string{"db-controller", "backup-controller", "restore-controller", "upgrade-controller", "pooler-controller", "drill-controller", "agent"}

// beside are the binaries that are in another one's image.
var beside = map[string][]string{"agent": {"wal"}}

type options struct {
	image.Source
	dir      string
	registry string
	insecure bool
	only     []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "howdah-images:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:           "howdah-images",
		Short:         "Build and push the container images of Howdah, and its releases",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&o.dir, "dir", "build/images", "folder for archives, SBOMs and binaries")
	flags.StringVar(&o.Version, "version", "dev", "version: image tag and label")
	flags.StringVar(&o.Revision, "revision", "", "commit that is built, for the label")
	flags.StringVar(&o.Arch, "arch", runtime.GOARCH, "processor architecture")
	flags.StringSliceVar(&o.only, "only", names, "names of the images")

	root.AddCommand(&cobra.Command{
		Use:   "build",
		Short: "Write DIR/NAME.tar (OCI archive) and DIR/NAME.cdx.json (SBOM) of each image",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.build(cmd.Context()) },
	})
	push := &cobra.Command{
		Use:   "push",
		Short: "Build and push each image as REGISTRY/NAME:VERSION, with its SBOM as a referrer",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.push(cmd.Context()) },
	}
	push.Flags().StringVar(&o.registry, "registry", "", "registry and path to push to, as in registry.example/howdah")
	push.Flags().BoolVar(&o.insecure, "insecure", false, "speak plain HTTP to the registry")
	_ = push.MarkFlagRequired("registry")
	root.AddCommand(push)
	root.AddCommand(releaseCommands(o)...)
	return root
}

func (o *options) build(ctx context.Context) error {
	return o.each(ctx, func(b *image.Binary) (string, error) {
		return b.WriteArchive(o.dir, "registry.local/howdah/"+b.Name+":"+o.Version)
	})
}

func (o *options) push(ctx context.Context) error {
	return o.each(ctx, func(b *image.Binary) (string, error) {
		return b.Push(ctx, o.registry+"/"+b.Name+":"+o.Version, o.insecure)
	})
}

// each compiles every wanted binary with one call of the compiler and hands each to do, several at a time;
// do says in one line what came of it.
func (o *options) each(ctx context.Context, do func(*image.Binary) (string, error)) error {
	binaries, err := image.Compile(ctx, o.Source, filepath.Join(o.dir, "bin"), o.only, beside)
	if err != nil {
		return err
	}
	var group errgroup.Group
	var printing sync.Mutex
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, binary := range binaries {
		group.Go(func() error {
			line, err := do(binary)
			if err != nil {
				return fmt.Errorf("image %s: %w", binary.Name, err)
			}
			printing.Lock()
			defer printing.Unlock()
			fmt.Println(line)
			return nil
		})
	}
	return group.Wait()
}
