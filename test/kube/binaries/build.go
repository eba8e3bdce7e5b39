package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"howdah.dev/test/kube/command"
	"howdah.dev/test/kube/lockfile"
	"howdah.dev/test/kube/progress"
	"howdah.dev/test/kube/workdir"
)

// Builder builds components into a cache.
type Builder struct {
	Assets string // the repository's folder with the nested modules
	Cache  string // the cache folder
	Report *progress.Reporter
}

// Ensure builds what the cache lacks and returns a folder that holds the programs of all components.
func (b Builder) Ensure(ctx context.Context, components ...Component) (string, error) {
	goVersion, err := b.goVersion(ctx)
	if err != nil {
		return "", err
	}
	folders := make([]string, 0, len(components))
	for _, component := range components {
		folder, err := b.ensureOne(ctx, component, goVersion)
		if err != nil {
			return "", err
		}
		folders = append(folders, folder)
	}
	return b.gather(folders)
}

func (b Builder) goVersion(ctx context.Context) (string, error) {
	out, err := command.Command{Args: []string{"go", "env", "GOVERSION"}, Dir: b.Assets, Env: []string{"GOWORK=off"}}.Output(ctx)
	if err != nil {
		return "", fmt.Errorf("find the Go toolchain: %w", err)
	}
	return strings.TrimSpace(out), nil
}

func (b Builder) ensureOne(ctx context.Context, component Component, goVersion string) (string, error) {
	key, err := Key(os.DirFS(filepath.Join(b.Assets, component.Module)), component, goVersion)
	if err != nil {
		return "", fmt.Errorf("key of %s: %w", component.Module, err)
	}
	folder := filepath.Join(b.Cache, "bin", component.Module+"-"+key)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	release, err := lockfile.Acquire(ctx, filepath.Join(b.Cache, "locks", "build"), lockfile.Exclusive, func() {
		b.Report.Say("another call builds programs: waiting for it to end …")
	})
	if err != nil {
		return "", err
	}
	defer release()
	if _, err := os.Stat(folder); err == nil {
		return folder, nil // the other one has built it
	}
	what := "build " + component.Module
	b.Report.Say("%s: %s …", what, component.duration())
	return folder, b.Report.Step(ctx, what, func(ctx context.Context) error { return b.build(ctx, component, folder) })
}

// build compiles into a folder of its own and renames it at the end: what is in the cache is complete.
func (b Builder) build(ctx context.Context, component Component, folder string) error {
	unfinished, remove, err := workdir.Make(filepath.Dir(folder))
	if err != nil {
		return err
	}
	defer remove()
	build := command.Command{
		Args: append([]string{"nice", "go"}, component.buildArgs(unfinished)...),
		Dir:  filepath.Join(b.Assets, component.Module),
		Env:  []string{"GOWORK=off", "CGO_ENABLED=0"},
	}
	if _, err := build.Output(ctx); err != nil {
		return err
	}
	return os.Rename(unfinished, folder)
}

func (c Component) buildArgs(out string) []string {
	flags := strings.TrimSpace("-s -w " + c.LDFlags)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out + string(filepath.Separator)}
	if c.Tags != "" {
		args = append(args, "-tags", c.Tags)
	}
	return append(args, c.Packages...)
}

// gather makes one folder of links to all programs: what a PATH wants.
func (b Builder) gather(folders []string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(folders)), "\n")))
	all := filepath.Join(b.Cache, "bin", "all-"+short(sum[:]))
	if err := os.MkdirAll(all, 0o755); err != nil {
		return "", err
	}
	for _, folder := range folders {
		programs, err := os.ReadDir(folder)
		if err != nil {
			return "", err
		}
		for _, program := range programs {
			target := filepath.Join("..", filepath.Base(folder), program.Name())
			if err := os.Symlink(target, filepath.Join(all, program.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
				return "", err
			}
		}
	}
	return all, nil
}

// Key is what a component's programs depend on: its pinned modules, own sources, flags, Go version and platform.
func Key(module fs.FS, component Component, goVersion string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, goVersion, runtime.GOOS, runtime.GOARCH, component.buildArgs(""))
	err := fs.WalkDir(module, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(module, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s %d\n%s", path, len(content), content)
		return nil
	})
	return short(hash.Sum(nil)), err
}

// short is enough of a checksum to tell a handful of builds apart.
func short(sum []byte) string { return hex.EncodeToString(sum[:8]) }
