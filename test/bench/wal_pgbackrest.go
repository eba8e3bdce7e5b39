package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pgBackRest works through a backlog in a process that it leaves behind: to see what that costs, one process of ours starts
// one command after the other, as PostgreSQL does, and takes in whatever is left behind.

// sequence is what that process is told.
type sequence struct {
	Program string
	Args    []string   // of every command
	Each    [][]string // the other arguments
}

// sequenceVerb makes this program that process.
const sequenceVerb = "sequence"

func runSequence(ctx context.Context) error {
	var s sequence
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	for _, each := range s.Each {
		cmd := exec.CommandContext(ctx, s.Program, append(s.Args, each...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
	}
	for { // no more children: the processor time of all of them is in this process's account
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return nil
		}
	}
}

func (b *bench) runSequence(ctx context.Context, each [][]string) (measured, error) {
	task, err := json.Marshal(sequence{Program: restProgram, Args: append(b.restOptions(), "--archive-async", "--pg1-path="+b.restPGDATA()), Each: each})
	if err != nil {
		return measured{}, err
	}
	cmd := b.runner.command(ctx, b.pg.worker, sequenceVerb)
	cmd.Stdin = strings.NewReader(string(task))
	cmd.WaitDelay = time.Minute
	result, err := measure(ctx, cmd)
	result.segments = len(each)
	return result, err
}

// restPGDATA is as much of a data directory as pgBackRest looks at when it archives.
func (b *bench) restPGDATA() string { return filepath.Join(b.folder, "pgbackrest", "pgdata") }

func (b *bench) makeRestPGDATA() (pgWAL, status string, err error) {
	pgWAL = filepath.Join(b.restPGDATA(), "pg_wal")
	status, global := filepath.Join(pgWAL, "archive_status"), filepath.Join(b.restPGDATA(), "global")
	for _, folder := range []string{b.restPGDATA(), pgWAL, status, global} {
		err = errors.Join(err, b.runner.folderFor(folder))
	}
	control := filepath.Join(global, "pg_control")
	err = errors.Join(err, copyFile(filepath.Join(b.pg.data, "global", "pg_control"), control), os.Chown(control, b.runner.uid, b.runner.gid))
	return pgWAL, status, err
}

// restPush gives pgBackRest a pg_wal where all segments wait.
func restPush(ctx context.Context, b *bench, _ string) (measured, error) {
	if _, err := b.restConfigure(ctx); err != nil {
		return measured{}, err
	}
	folder, names, err := b.segments(ctx)
	if err != nil {
		return measured{}, err
	}
	pgWAL, status, err := b.makeRestPGDATA()
	if err != nil {
		return measured{}, err
	}
	var each [][]string
	for _, name := range names {
		if err := errors.Join(os.Link(filepath.Join(folder, name), filepath.Join(pgWAL, name)),
			os.WriteFile(filepath.Join(status, name+".ready"), nil, 0o644)); err != nil {
			return measured{}, err
		}
		each = append(each, []string{"archive-push", filepath.Join(pgWAL, name)})
	}
	return b.runSequence(ctx, each)
}

// restGet fetches what restPush has pushed.
func restGet(ctx context.Context, b *bench, _ string) (measured, error) {
	_, names, err := b.segments(ctx)
	if err != nil {
		return measured{}, err
	}
	into := b.fetchedInto()
	defer os.RemoveAll(into)
	if err := b.runner.folderFor(into); err != nil {
		return measured{}, err
	}
	var each [][]string
	for _, name := range names {
		each = append(each, []string{"archive-get", name, filepath.Join(into, "fetched-"+name)})
	}
	return b.runSequence(ctx, each)
}
