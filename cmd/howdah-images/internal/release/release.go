// Package release writes everything that a release consists of into one folder, checks such a folder, and brings it to a registry.
// Nothing of the machine or the time goes into it: the same commit gives the same bytes.
package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/howdah-images/internal/image"
	"howdah.dev/howdah/cmd/howdah-images/internal/signature"
)

// Names inside the folder of a release.
const (
	layoutName     = "oci"        // OCI layout of all that goes to the registry
	sumsName       = "SHA256SUMS" // of every other file
	signatureName  = "SHA256SUMS.sig"
	keyName        = "howdah.pub"
	provenanceName = "provenance.intoto.json"
	attestedName   = "provenance.intoto.jsonl"
)

// Release says what is released, and where it will be found.
type Release struct {
	Source    image.Source // with the version and the revision; its platform isn't used
	Images    []string     // commands that have an image
	Beside    map[string][]string
	Arches    []string // of the images
	Clients   []string // commands that people download
	Platforms []string // of these, as linux/amd64
	Charts    []string // folders; the first is that of the suite

	Repository string // registry and path of the images, as in registry.example/howdah
	Downloads  string // URL below which the files of this version are
	Postgres   map[string]string
	PgBouncer  string // image of PgBouncer; may be empty
	Builder    string // URI of who builds, for the provenance
	Time       time.Time

	Dist string         // folder that is written
	Work string         // folder for what is compiled
	Helm string         // path of helm
	Key  *signature.Key // nil leaves the release unsigned

	// Uncommitted lets a release be signed whose files are not those of a commit, which nobody can build again.
	Uncommitted bool
}

var (
	versionPattern    = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	repositoryPattern = regexp.MustCompile(`^[^/\s]+/[^\s]*[^/\s]$`)
)

func (r *Release) check() error {
	if !versionPattern.MatchString(r.Source.Version) {
		return fmt.Errorf("the version %q is not a semantic version without build metadata: write one such as 1.2.3 or 1.2.3-rc.1, without a leading v", r.Source.Version)
	}
	if !repositoryPattern.MatchString(r.Repository) {
		return fmt.Errorf("the images of the release need a registry and a path there, as in registry.example/howdah, not %q", r.Repository)
	}
	if r.Key != nil && strings.HasSuffix(r.Source.Revision, "-dirty") && !r.Uncommitted {
		return errors.New("a release with uncommitted changes is not signed, because nobody could build it again: commit them, or try it out with --uncommitted")
	}
	return nil
}

// Write builds everything beside the folder of the release, and puts it in place when all of it is there.
func (r *Release) Write(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	if err := replaceable(r.Dist); err != nil {
		return err
	}
	target := r.Dist
	partial, err := filepath.Abs(target + ".partial")
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o755)); err != nil {
		return err
	}
	building := *r
	building.Dist = partial
	if err := building.build(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(partial, target)
}

// replaceable refuses to replace a folder that is no earlier release.
func replaceable(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, sumsName)); err != nil {
		return fmt.Errorf("%s has files but no %s, so it is not a release that can be replaced: remove it, or name another folder", folder, sumsName)
	}
	return nil
}

// build writes every part. Each needs what is above it.
func (r *Release) build(ctx context.Context) error {
	published, err := r.writeImages(ctx)
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	if err := r.writeCharts(published); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	if err := r.writeManifests(ctx); err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	if err := r.writeClients(ctx); err != nil {
		return fmt.Errorf("programs for download: %w", err)
	}
	if err := r.writeProvenance(published); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	if err := r.signImages(published); err != nil {
		return fmt.Errorf("signatures: %w", err)
	}
	return r.writeSums()
}

func (r *Release) path(name string) string { return filepath.Join(r.Dist, name) }

func (r *Release) write(name string, content []byte) error {
	return os.WriteFile(r.path(name), content, 0o644)
}
