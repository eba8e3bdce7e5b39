package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-images/internal/release"
	"howdah.dev/howdah/cmd/howdah-images/internal/signature"
)

// clients are the binaries that people run on their own machines.
var clients = []string{"kubectl-howdah", "howdah-backup"}

// releaseOptions are the flags of what has to do with releases.
type releaseOptions struct {
	options *options
	release.Release
	key      string
	time     int64
	insecure bool
}

func releaseCommands(o *options) []*cobra.Command {
	r := &releaseOptions{options: o}
	write := &cobra.Command{
		Use:   "release",
		Short: "Write everything that a release consists of into a folder",
		Long: "Write everything that a release consists of into a folder: images and charts as an OCI layout, manifests, programs for download, " +
			"SBOMs, provenance, checksums and signatures. One commit and one key give the same bytes each time. " +
			"The time in archives is that of SOURCE_DATE_EPOCH or --time.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.write(cmd.Context()) },
	}
	r.addFlags(write)
	publish := &cobra.Command{
		Use:   "publish DIST",
		Short: "Push the images, charts, SBOMs and signatures of a release to its registry",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.registry(cmd).Publish(cmd.Context(), args[0])
		},
	}
	publish.Flags().BoolVar(&r.insecure, "insecure", false, "speak plain HTTP to the registry")
	return []*cobra.Command{write, publish, r.verifyCommand()}
}

func (r *releaseOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&r.Dist, "dist", "dist", "folder of the release")
	flags.StringVar(&r.Work, "work", "build/release", "folder for binaries")
	flags.StringVar(&r.Repository, "repository", "", "registry and path of the images, as in registry.example/howdah")
	flags.StringVar(&r.Downloads, "downloads", "", "URL below which the files of this version will be, for the manifest of krew")
	flags.StringToStringVar(&r.Postgres, "postgres-images", nil, "images of PostgreSQL in the chart, as in 17=registry.example/postgres@sha256:...; those of the chart stay for other versions")
	flags.StringVar(&r.PgBouncer, "pgbouncer-image", "", "image of PgBouncer in the chart; that of the chart stays if it is empty")
	flags.StringVar(&r.Builder, "builder", "https://howdah.dev/release/make", "URI of who builds, for the provenance")
	flags.StringSliceVar(&r.Arches, "arches", []string{"amd64", "arm64"}, "architectures of the images")
	flags.StringSliceVar(&r.Platforms, "platforms", []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}, "platforms of the programs for download")
	flags.StringVar(&r.Helm, "helm", "build/bin/helm", "path of helm")
	flags.StringVar(&r.key, "key", "", "PEM file with an ECDSA key that signs the release; without it the release is not signed")
	flags.Int64Var(&r.time, "time", 0, "time of the files in archives, in seconds since 1970")
	flags.BoolVar(&r.Uncommitted, "uncommitted", false, "sign a release with uncommitted changes, to try it out")
	_ = command.MarkFlagRequired("repository")
}

func (r *releaseOptions) write(ctx context.Context) error {
	if r.key != "" {
		key, err := signature.LoadKey(r.key)
		if err != nil {
			return err
		}
		r.Key = key
	}
	r.Source, r.Images, r.Beside, r.Clients = r.options.Source, r.options.only, beside, clients
	r.Charts = []string{"charts/howdah", "charts/howdah-cluster"}
	r.Time = time.Unix(r.time, 0)
	if err := r.Release.Write(ctx); err != nil {
		return err
	}
	signed := "signed"
	if r.Key == nil {
		signed = "NOT signed: name a key with --key"
	}
	fmt.Printf("%s holds the release %s for %s, %s\n", r.Dist, r.Source.Version, r.Repository, signed)
	return nil
}

func (r *releaseOptions) registry(cmd *cobra.Command) *release.Registry {
	return &release.Registry{Insecure: r.insecure, Say: func(format string, args ...any) {
		fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...)
	}}
}

func (r *releaseOptions) verifyCommand() *cobra.Command {
	var inRegistry bool
	verify := &cobra.Command{
		Use:   "verify DIST",
		Short: "Check the signature and the checksums of a release, and what its registry has",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := signature.LoadPublicKey(r.key)
			if err != nil {
				return err
			}
			if err := release.Verify(args[0], key); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is what was signed\n", filepath.Clean(args[0]))
			if !inRegistry {
				return nil
			}
			return r.registry(cmd).Verify(cmd.Context(), args[0], key)
		},
	}
	verify.Flags().StringVar(&r.key, "key", "", "PEM file with the public key of the release, from somewhere else than the release")
	verify.Flags().BoolVar(&inRegistry, "registry", false, "check what the registry has, too")
	verify.Flags().BoolVar(&r.insecure, "insecure", false, "speak plain HTTP to the registry")
	_ = verify.MarkFlagRequired("key")
	return verify
}
