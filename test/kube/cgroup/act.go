package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"howdah.dev/test/kube/command"
)

// Freeze stops every process of the group, pods included, and returns when they have stopped.
func (s System) Freeze(ctx context.Context, group string) error {
	if s.IsUnified() {
		path := filepath.Join(s.unified, group)
		return s.setFrozen(ctx, filepath.Join(path, "cgroup.freeze"), "1", filepath.Join(path, "cgroup.events"), "frozen 1")
	}
	state := filepath.Join(s.controllers["freezer"], group, "freezer.state")
	return s.setFrozen(ctx, state, "FROZEN", state, "FROZEN")
}

// Thaw lets the group's processes continue.
func (s System) Thaw(ctx context.Context, group string) error {
	if s.IsUnified() {
		path := filepath.Join(s.unified, group)
		return s.setFrozen(ctx, filepath.Join(path, "cgroup.freeze"), "0", filepath.Join(path, "cgroup.events"), "frozen 0")
	}
	state := filepath.Join(s.controllers["freezer"], group, "freezer.state")
	return s.setFrozen(ctx, state, "THAWED", state, "THAWED")
}

// IsFrozen tells whether Freeze was the last word.
func (s System) IsFrozen(group string) bool {
	file, frozen := filepath.Join(s.controllers["freezer"], group, "freezer.state"), "FROZEN"
	if s.IsUnified() {
		file, frozen = filepath.Join(s.unified, group, "cgroup.events"), "frozen 1"
	}
	content, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(content), frozen)
}

func (s System) setFrozen(ctx context.Context, control, value, state, reached string) error {
	return command.Until(ctx, 10*time.Millisecond, reached, func(context.Context) (bool, error) {
		// v1 may stay FREEZING while a process forks: writing again is how it is told to continue.
		if err := write(control, value); err != nil {
			return false, err
		}
		content, err := os.ReadFile(state)
		return strings.Contains(string(content), reached), err
	})
}

// Processes lists the processes of a group and of all groups below it. A group that doesn't exist has none.
func (s System) Processes(group string) ([]int, error) {
	var all []int
	err := filepath.WalkDir(filepath.Join(s.processRoot(), group), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		pids, err := pidsOf(path)
		all = append(all, pids...)
		return err
	})
	return all, err
}

// ProcessesIn lists the processes of the groups below a group whose name holds a text, as that of a pod holds its UID.
func (s System) ProcessesIn(group, text string) ([]int, error) {
	root := filepath.Join(s.processRoot(), group)
	var all []int
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() || !strings.Contains(entry.Name(), text) {
			return err
		}
		pids, err := s.Processes(filepath.Join(group, strings.TrimPrefix(path, root)))
		if err != nil {
			return err
		}
		all = append(all, pids...)
		return fs.SkipDir
	})
	return all, err
}

// processRoot is the hierarchy that processes are looked up in.
func (s System) processRoot() string {
	if s.IsUnified() {
		return s.unified
	}
	return s.controllers["pids"]
}

// Remove removes a group without processes and all groups below it.
func (s System) Remove(group string) error {
	for _, root := range s.roots() {
		if err := removeTree(filepath.Join(root, group)); err != nil {
			return err
		}
	}
	return nil
}

// Groups lists the groups at the top whose names start with prefix.
func (s System) Groups(prefix string) []string {
	var groups []string
	for _, root := range s.roots() {
		entries, _ := filepath.Glob(filepath.Join(root, prefix+"*"))
		for _, entry := range entries {
			if name := filepath.Base(entry); !slices.Contains(groups, name) {
				groups = append(groups, name)
			}
		}
	}
	return groups
}

// removeTree removes groups from the bottom up; the files in them are the kernel's.
func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(path, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: path, Err: err}
	}
	return nil
}

func pidsOf(path string) ([]int, error) {
	content, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
