// Command bench measures backups: ours, pgBackRest's and pg_basebackup's of one data set, in turn, to one MinIO over TLS; or
// restores, when it is told so. It prints a table and writes build/bench/backup.json or restore.json. docs/benchmarks.md says
// what is measured, and how.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func(ctx context.Context) error { return measureAll(ctx, backups) }
	switch {
	case len(os.Args) == 2 && os.Args[1] == restores.name:
		run = func(ctx context.Context) error { return measureAll(ctx, restores) }
	case len(os.Args) == 2 && os.Args[1] == recoverVerb:
		run = runRecovery
	case len(os.Args) == 2 && os.Args[1] == workerVerb:
		run = work
	case len(os.Args) == 2 && os.Args[1] == sequenceVerb:
		run = runSequence
	case len(os.Args) == 4 && os.Args[1] == archiveVerb:
		run = func(ctx context.Context) error { return archive(ctx, os.Args[2], os.Args[3]) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// settings come from the environment, as make hands them on.
type settings struct {
	folder  string  // of everything that a run makes
	minio   string  // program
	scale   float64 // 1 is 5.4 GB
	runs    int
	works   []string
	tools   []string
	workers int
}

// suite is what one run of the program measures.
type suite struct {
	name  string   // also of its file
	works []string // in the order in which they are measured
	tools []string
}

var (
	backups  = suite{"backup", []string{workFull, workAdjacent, workRandom, workPush, workGet}, allTools}
	restores = suite{"restore", []string{workRestore, workDelta, workPITR}, []string{toolOurs, toolOursFast, toolOursUndo, toolPgBackRest}}
)

func readSettings(of suite) (settings, error) {
	s := settings{minio: os.Getenv("MINIO"), workers: runtime.NumCPU()}
	var err error
	if s.folder, err = filepath.Abs("build/bench"); err != nil {
		return s, err
	}
	if s.minio == "" {
		return s, fmt.Errorf("MINIO names no program: run this with make bench-backup or bench-restore")
	}
	if s.scale, err = strconv.ParseFloat(setting("SCALE", "0.25"), 64); err != nil || s.scale <= 0 {
		return s, fmt.Errorf("SCALE must be a number above 0, where 1 is 5.4 GB")
	}
	if s.runs, err = strconv.Atoi(setting("RUNS", "3")); err != nil || s.runs < 1 {
		return s, fmt.Errorf("RUNS must be a number of 1 or more")
	}
	if s.works, err = choose("WORK", of.works); err != nil {
		return s, err
	}
	s.tools, err = choose("TOOLS", of.tools)
	return s, err
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// choose reads a list of names, in the order of all.
func choose(name string, all []string) ([]string, error) {
	value := os.Getenv(name)
	if value == "" {
		return all, nil
	}
	wanted := strings.Split(value, ",")
	for _, one := range wanted {
		if !slices.Contains(all, one) {
			return nil, fmt.Errorf("%s: there is no %q among %s", name, one, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return !slices.Contains(wanted, one) }), nil
}

// bench is one run of the program.
type bench struct {
	settings
	pg       *server
	store    *storage
	runner   runner
	wal      *replayed // what a restore to a point replays
	restores int       // so far
}

func measureAll(ctx context.Context, of suite) error {
	s, err := readSettings(of)
	if err != nil {
		return err
	}
	if err := enterOwnMounts(); err != nil {
		return err
	}
	b := &bench{settings: s}
	if err := b.chooseRunner(ctx); err != nil {
		return err
	}
	if b.pg, err = b.startServer(ctx); err != nil {
		return err
	}
	defer b.pg.stop()
	if b.store, err = b.startStorage(ctx); err != nil {
		return err
	}
	defer b.store.stop()
	results, err := b.measure(ctx)
	if err = errors.Join(err, os.RemoveAll(b.restoredBefore())); err != nil {
		return err
	}
	return results.publish(os.Stdout, filepath.Join(b.folder, of.name+".json"))
}

// chooseRunner finds out with which programs, and as whom, servers and tools run.
func (b *bench) chooseRunner(ctx context.Context) (err error) {
	if image := os.Getenv("PG_IMAGE"); image != "" {
		return b.useImage(ctx, image)
	}
	if b.runner, err = findRunner(); err != nil {
		return err
	}
	return ensurePrograms(ctx, b.tools)
}

// measure does every work with every tool, one after the other, as often as asked: what else the machine does meets all of
// them.
func (b *bench) measure(ctx context.Context) (results, error) {
	all := results{about: b.about(ctx)}
	var err error
	for _, work := range b.works {
		tools := slices.DeleteFunc(slices.Clone(b.tools), func(tool string) bool { return actOf(work, tool) == nil })
		for run := range b.runs {
			if slices.Contains(restores.works, work) {
				err = b.prepareRestore(ctx, work, tools)
			} else {
				err = b.prepare(ctx, work, tools)
			}
			if err != nil {
				return all, fmt.Errorf("prepare %s: %w", work, err)
			}
			for _, tool := range tools {
				result, err := b.once(ctx, work, tool)
				if err != nil {
					return all, fmt.Errorf("%s by %s: %w", work, tool, err)
				}
				fmt.Printf("%-20s %-15s run %d: %s\n", work, tool, run+1, result)
				all.add(work, tool, result)
			}
		}
	}
	return all, nil
}

// once counts what a tool has stored, beside what it says itself.
func (b *bench) once(ctx context.Context, work, tool string) (measured, error) {
	if slices.Contains(restores.works, work) {
		return b.restoreOnce(ctx, work, tool)
	}
	if work == workFull || work == workPush { // the others build on what is there
		if err := b.store.clear(ctx, ""); err != nil {
			return measured{}, err
		}
	}
	bytes, objects, err := b.store.count(ctx, prefixOf(tool), work == workPush)
	if err != nil {
		return measured{}, err
	}
	result, err := actOf(work, tool)(ctx, b, tool)
	if err != nil || result.stored > 0 {
		return result, err
	}
	result.stored, result.objects, err = b.store.count(ctx, prefixOf(tool), work == workPush)
	result.stored, result.objects = result.stored-bytes, result.objects-objects
	return result, err
}

// prepare makes what a work begins with: full backups and a change since, or WAL in the archive.
func (b *bench) prepare(ctx context.Context, work string, tools []string) error {
	if err := b.store.clear(ctx, ""); err != nil {
		return err
	}
	before := map[string]string{workAdjacent: workFull, workRandom: workFull, workGet: workPush}[work]
	if before == "" {
		return nil
	}
	for _, tool := range tools {
		if _, err := actOf(before, tool)(ctx, b, tool); err != nil {
			return fmt.Errorf("%s by %s: %w", before, tool, err)
		}
	}
	if before == workFull {
		return b.pg.change(ctx, work)
	}
	return nil
}
