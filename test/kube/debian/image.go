// Package debian builds images of PostgreSQL and PgBouncer from Debian's packages. Those of PostgreSQL are laid out like the official one.
package debian

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"howdah.dev/test/kube/lockfile"
	"howdah.dev/test/kube/oci"
	"howdah.dev/test/kube/progress"
	"howdah.dev/test/kube/workdir"
)

//go:embed recipe.sh
var recipe string

//go:embed pgbouncer.sh
var poolerRecipe string

// Image is a PostgreSQL major version and the Debian release that has it.
type Image struct {
	Major int // 0: it has PgBouncer
	Suite string
}

// Images are those that tests use. They differ in libc and ICU, as real ones do.
var Images = []Image{
	{Major: 15, Suite: "bookworm"},
	{Major: 17, Suite: "trixie"},
	{Major: 18, Suite: "forky"},
	{Suite: "forky"}, // the newest PgBouncer
}

// pooler says whether it is the image of PgBouncer.
func (i Image) pooler() bool { return i.Major == 0 }

// Name is what pods call the image.
func (i Image) Name() string {
	if i.pooler() {
		return "registry.local/pgbouncer:" + i.Suite
	}
	return fmt.Sprintf("registry.local/postgresql:%d", i.Major)
}

// Short names the image on the command line.
func (i Image) Short() string {
	if i.pooler() {
		return "pgbouncer"
	}
	return fmt.Sprint(i.Major)
}

func (i Image) title() string {
	if i.pooler() {
		return "PgBouncer"
	}
	return fmt.Sprintf("PostgreSQL %d", i.Major)
}

// archive is how the names of its archives begin.
func (i Image) archive() string {
	if i.pooler() {
		return "pgbouncer"
	}
	return fmt.Sprintf("postgresql-%d", i.Major)
}

func (i Image) recipe() string {
	if i.pooler() {
		return poolerRecipe
	}
	return recipe
}

func (i Image) config() oci.Config {
	if i.pooler() {
		return oci.Config{
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"pgbouncer"},
			Labels:     map[string]string{"org.opencontainers.image.title": "PgBouncer from Debian packages, for tests"},
		}
	}
	bin := fmt.Sprintf("/usr/lib/postgresql/%d/bin", i.Major)
	return oci.Config{
		Env: []string{
			"PATH=" + bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"LANG=en_US.utf8",
			fmt.Sprintf("PG_MAJOR=%d", i.Major),
			"PGDATA=/var/lib/postgresql/data",
		},
		Entrypoint: []string{"postgres"},
		StopSignal: "SIGINT",
		Labels: map[string]string{
			"org.opencontainers.image.title":   "PostgreSQL from Debian packages, for tests",
			"org.opencontainers.image.version": fmt.Sprint(i.Major),
		},
	}
}

// key is what an image depends on. The packages of a release change with its point releases: an archive in the cache
// keeps those of the day when it was built.
func (i Image) key() string {
	sum := sha256.Sum256(fmt.Appendln(nil, i, i.config(), runtime.GOARCH, i.recipe()))
	return hex.EncodeToString(sum[:8])
}

// Builder builds images into a folder of archives.
type Builder struct {
	Folder string
	Source Source
	Report *progress.Reporter
}

// Archive is where an image's archive is, once it is built.
func (b Builder) Archive(image Image) string {
	return filepath.Join(b.Folder, image.archive()+"-"+image.key()+".tar")
}

// HasAll tells whether Ensure has nothing to build.
func (b Builder) HasAll(images []Image) bool {
	return !slices.ContainsFunc(images, func(image Image) bool {
		_, err := os.Stat(b.Archive(image))
		return err != nil
	})
}

// Ensure builds the images that the folder lacks, several at once, and returns all archives.
func (b Builder) Ensure(ctx context.Context, images []Image) ([]string, error) {
	release, err := lockfile.Acquire(ctx, filepath.Join(b.Folder, "lock"), lockfile.Exclusive, func() {
		b.Report.Say("another call builds images: waiting for it to end …")
	})
	if err != nil {
		return nil, err
	}
	defer release()
	var all errgroup.Group // one that fails doesn't take from the others what they have done
	all.SetLimit(max(1, runtime.NumCPU()*3/4))
	var archives []string
	for _, image := range images {
		archive := b.Archive(image)
		archives = append(archives, archive)
		if _, err := os.Stat(archive); err == nil {
			continue
		}
		what := fmt.Sprintf("build image of %s from %s", image.title(), image.Suite)
		b.Report.Say("%s: a minute or two, once …", what)
		all.Go(func() error {
			return b.Report.Step(ctx, what, func(ctx context.Context) error { return b.build(ctx, image, archive) })
		})
	}
	return archives, all.Wait()
}

func (b Builder) build(ctx context.Context, image Image, archive string) error {
	folder, remove, err := workdir.Make(b.Folder)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.cook(ctx, image, folder); err != nil {
		return err
	}
	if err := oci.Write(archive, image.Name(), filepath.Join(folder, "layer.tar"), image.config()); err != nil {
		return err
	}
	return b.removeOlder(image)
}

// removeOlder removes the archives that earlier recipes made: they are large, and nobody asks for them again.
func (b Builder) removeOlder(image Image) error {
	archives, err := filepath.Glob(filepath.Join(b.Folder, image.archive()+"-*.tar"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if archive == b.Archive(image) {
			continue
		}
		if err := os.Remove(archive); err != nil {
			return err
		}
	}
	return nil
}

// cook runs the recipe. Its steps come through a pipe of their own, the noise of its tools goes to a log that is
// shown when it fails.
func (b Builder) cook(ctx context.Context, image Image, folder string) error {
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	steps, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer steps.Close()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
		"nice", "sh", "-c", image.recipe())
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = folder, log, log, []*os.File{writer}
	cmd.Env = append(os.Environ(), b.Source.environment(image)...)
	if err := cmd.Start(); err != nil {
		writer.Close()
		return err
	}
	writer.Close()
	b.relay(image, steps)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, tail(log))
	}
	return nil
}

func (b Builder) relay(image Image, steps io.Reader) {
	lines := bufio.NewScanner(steps)
	for lines.Scan() {
		b.Report.Say("  image of %s: %s", image.title(), lines.Text())
	}
}

// tail returns the end of a log.
func tail(log *os.File) string {
	const length = 2000
	info, err := log.Stat()
	if err != nil {
		return err.Error()
	}
	end := make([]byte, min(length, info.Size()))
	if _, err := log.ReadAt(end, info.Size()-int64(len(end))); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(end))
}
