package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fuzzStage looks for input that breaks what reads a bucket, a file or the network. FUZZTIME is how long it looks for each target.
func fuzzStage() *stage {
	return &stage{name: "fuzz", about: "input that nobody has written, for each parser", run: fuzz}
}

// fuzzTime is enough to find what a change has broken. Set FUZZTIME to look for longer.
const fuzzTime = "3s"

// fuzzTarget is one function.
type fuzzTarget struct{ folder, name string }

func fuzz(ctx context.Context, t *tally) error {
	targets, err := fuzzTargets(".")
	if err != nil {
		return err
	}
	var failed []error
	for _, target := range targets {
		err := command(ctx, "fuzz-"+target.name, nil,
			"go", "test", "-run", "^$", "-fuzz", "^"+target.name+"$", "-fuzztime", cmp.Or(os.Getenv("FUZZTIME"), fuzzTime), "./"+target.folder)
		if err == nil {
			t.passed++
			continue
		}
		t.failed++
		failed = append(failed, fmt.Errorf("%s in %s: %w", target.name, target.folder, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

var fuzzFunction = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTargets are all in the main module.
func fuzzTargets(root string) (targets []fuzzTarget, err error) {
	tree := os.DirFS(root)
	err = fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return leaveOut(tree, path)
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := fs.ReadFile(tree, path)
		for _, found := range fuzzFunction.FindAllSubmatch(content, -1) {
			targets = append(targets, fuzzTarget{folder: filepath.Dir(path), name: string(found[1])})
		}
		return err
	})
	return targets, err
}

// leaveOut skips what is no part of the module: other modules, and what was built.
func leaveOut(tree fs.FS, path string) error {
	if path == "." {
		return nil
	}
	_, err := fs.Stat(tree, filepath.Join(path, "go.mod"))
	if err == nil || filepath.Base(path) == "build" || strings.HasPrefix(filepath.Base(path), ".") {
		return fs.SkipDir
	}
	return nil
}
