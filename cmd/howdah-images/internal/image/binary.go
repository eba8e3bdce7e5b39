// Package image makes a container image of one static Go binary.
package image

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Source says what is compiled, and what the image says about where it came from.
type Source struct {
	Dir      string // folder of the module; empty is the working directory
	Version  string // tag and label
	Revision string // commit, for the label; may be empty
	Arch     string // GOARCH
	OS       string // GOOS; empty is linux
}

// Binary is a compiled command, ready to become an image.
type Binary struct {
	Source
	Name   string
	Path   string
	Beside []string // paths of smaller programs that come along; they use no module that it doesn't use itself
}

// Compile builds cmd/NAME of every name into dir. Nothing of the machine or the folder goes into a binary, so that
// the same source gives the same bytes. The time zones are compiled in, so that they are there in whatever image
// the agent is copied to. Beside says which other commands the images of some names have, too.
func Compile(ctx context.Context, source Source, dir string, names []string, beside map[string][]string) ([]*Binary, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-tags", "timetzdata",
		"-ldflags", "-s -w -buildid= -X main.version=" + source.Version, "-o", dir + "/",
	}
	binaries := make([]*Binary, 0, len(names))
	for _, name := range names {
		binary := &Binary{Source: source, Name: name, Path: filepath.Join(dir, name)}
		args = append(args, "./cmd/"+name)
		for _, other := range beside[name] {
			args = append(args, "./cmd/"+other)
			binary.Beside = append(binary.Beside, filepath.Join(dir, other))
		}
		binaries = append(binaries, binary)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source.Dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+cmp.Or(source.OS, "linux"), "GOARCH="+source.Arch, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %v: %w\n%s", names, err, out)
	}
	return binaries, nil
}
