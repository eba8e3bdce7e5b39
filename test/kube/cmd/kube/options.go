package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"howdah.dev/test/kube/binaries"
	"howdah.dev/test/kube/cluster"
	"howdah.dev/test/kube/preflight"
	"howdah.dev/test/kube/progress"
	"howdah.dev/test/kube/topology"
)

// options are the flags of every verb.
type options struct {
	name       string
	cache      string
	repository string
	mirror     string
}

func (o *options) addTo(command *cobra.Command) {
	name := topology.DefaultName
	if prefix := os.Getenv("HOWDAH_PREFIX"); prefix != "" {
		name = prefix
	}
	flags := command.PersistentFlags()
	flags.StringVar(&o.name, "name", name, "name of the cluster; two of different names can run side by side (or HOWDAH_PREFIX)")
	flags.StringVar(&o.cache, "cache", "", "folder for programs, images and clusters (default: howdah in the user's cache folder)")
	flags.StringVar(&o.repository, "repository", "", "folder of the Howdah repository (default: where this program or the shell is)")
	flags.StringVar(&o.mirror, "mirror", "", "address of the Debian mirror for images (default: this machine's own)")
}

// complete fills in what no flag says.
func (o *options) complete() error {
	if o.cache == "" {
		folder, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no cache folder: %w; say where with --cache", err)
		}
		o.cache = filepath.Join(folder, "howdah")
	}
	absolute, err := filepath.Abs(o.cache)
	if err != nil {
		return err
	}
	o.cache = absolute
	if o.repository == "" {
		o.repository, err = findRepository()
	}
	return err
}

// marker is a file that only this repository has.
const marker = "test/kube/assets/kubernetes/go.mod"

// findRepository looks upwards from the shell's folder and from the program's.
func findRepository() (string, error) {
	var starts []string
	if folder, err := os.Getwd(); err == nil {
		starts = append(starts, folder)
	}
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self))
	}
	for _, start := range starts {
		for folder := start; ; folder = filepath.Dir(folder) {
			if _, err := os.Stat(filepath.Join(folder, marker)); err == nil {
				return folder, nil
			}
			if folder == filepath.Dir(folder) {
				break
			}
		}
	}
	return "", errors.New("the Howdah repository isn't here: call this inside of it, or say where it is with --repository")
}

// session is what a verb works with.
type session struct {
	*options
	report *progress.Reporter
}

// privilege is what a verb needs of its caller.
type privilege bool

const (
	anybody privilege = false
	root    privilege = true
)

// begin starts a verb.
func (o *options) begin(needs privilege) (session, error) {
	if needs == root && os.Geteuid() != 0 {
		return session{}, preflight.ErrNotRoot
	}
	if err := o.complete(); err != nil {
		return session{}, err
	}
	return session{options: o, report: progress.New(os.Stderr)}, nil
}

func (s session) builder() binaries.Builder {
	return binaries.Builder{Assets: filepath.Join(s.repository, "test", "kube", "assets"), Cache: s.cache, Report: s.report}
}

// open finds the running cluster.
func (s session) open() (*cluster.Cluster, error) {
	return cluster.Open(s.name, s.cache, s.builder(), s.report)
}

// described is the cluster of that name, running or not.
func (s session) described(shape topology.Shape) (*cluster.Cluster, error) {
	described, err := topology.New(s.name, s.cache, shape)
	if err != nil {
		return nil, err
	}
	if _, err := binaries.ForNodes(shape.Kubernetes); err != nil {
		return nil, err
	}
	return cluster.New(described, s.builder(), s.report)
}

func (s session) defaultKubeconfig() string {
	return filepath.Join(s.repository, "build", "kubeconfig")
}
