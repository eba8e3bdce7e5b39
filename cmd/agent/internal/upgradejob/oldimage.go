package upgradejob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The programs of the old version that pg_upgrade and the check run.
var oldPrograms = []string{"initdb", "pg_controldata", "pg_ctl", "pg_resetwal", "postgres"}

// oldImage is the root of the old PostgreSQL image in a pod of the new one: mounted, or what CopyImage has copied of it. Its programs need the C library
// and the ICU that they were built with, so each is started through the old image's own loader by a wrapper. The
// wrappers lie in a folder that ends like the old one's, with the old `share` and `lib` beside it, because PostgreSQL
// finds its files relative to the path it was started by, and pg_ctl starts the postgres that is next to it.
type oldImage struct {
	root  string // where the image is
	major int
}

// libraryFolders of an image, as patterns below its root.
var libraryFolders = []string{"usr/lib/*-linux-gnu", "lib/*-linux-gnu", "usr/local/lib", "usr/lib64", "lib64"}

const wrapper = `#!/bin/sh
LOCPATH=%s exec %s --library-path %s --argv0 "$0" %s "$@"
`

// install writes the wrappers below dir and returns the folder with the programs.
func (o oldImage) install(dir string) (binDir string, err error) {
	loader, libraries, err := o.loader()
	if err != nil {
		return "", err
	}
	version := fmt.Sprint(o.major)
	binDir = filepath.Join(dir, "usr/lib/postgresql", version, "bin")
	share := filepath.Join(dir, "usr/share/postgresql")
	if err := errors.Join(os.MkdirAll(binDir, 0o755), os.MkdirAll(share, 0o755)); err != nil {
		return "", err
	}
	for _, program := range oldPrograms {
		real := filepath.Join(o.root, "usr/lib/postgresql", version, "bin", program)
		if _, err := os.Stat(real); err != nil {
			return "", fmt.Errorf("the old image has no %s of PostgreSQL %d: %w", program, o.major, err)
		}
		script := fmt.Sprintf(wrapper, filepath.Join(o.root, "usr/lib/locale"), loader, libraries, real)
		if err := os.WriteFile(filepath.Join(binDir, program), []byte(script), 0o755); err != nil { // a program
			return "", err
		}
	}
	return binDir, errors.Join(
		link(filepath.Join(o.root, "usr/lib/postgresql", version, "lib"), filepath.Join(filepath.Dir(binDir), "lib")),
		link(filepath.Join(o.root, "usr/share/postgresql", version), filepath.Join(share, version)),
	)
}

func link(target, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

// loader finds the old image's dynamic loader and the folders of its libraries. The loader is looked for beside the
// libraries first: the well-known name in /lib64 may be an absolute link, which leads to this pod's own loader here.
func (o oldImage) loader() (loader, libraries string, err error) {
	for _, pattern := range []string{"usr/lib/*-linux-gnu/ld-linux-*.so.*", "lib/*-linux-gnu/ld-linux-*.so.*", "usr/lib64/ld-linux-*.so.*", "lib64/ld-linux-*.so.*"} {
		found, err := filepath.Glob(filepath.Join(o.root, pattern))
		if err != nil {
			return "", "", err
		}
		if len(found) > 0 {
			loader = found[0]
			break
		}
	}
	if loader == "" {
		return "", "", fmt.Errorf("the old image, at %s, has no dynamic loader of glibc; is it a Debian image?", o.root)
	}
	var folders []string
	for _, pattern := range libraryFolders {
		found, err := filepath.Glob(filepath.Join(o.root, pattern))
		if err != nil {
			return "", "", err
		}
		folders = append(folders, found...)
	}
	return loader, strings.Join(folders, ":"), nil
}

// programs are the old and the new version's, ready to run.
type programs struct {
	oldBin, newBin string
}

func (w Worker) programs(ctx context.Context, from, to int) (programs, error) {
	newBin, err := w.binDir(ctx, to)
	if err != nil {
		return programs{}, err
	}
	oldBin, err := oldImage{root: w.OldRoot, major: from}.install(filepath.Join(w.Scratch, "old"))
	return programs{oldBin: oldBin, newBin: newBin}, err
}
