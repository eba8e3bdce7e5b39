package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// parallelWAL is how many segments the agent has on their way at a time.
const parallelWAL = 4

// backlogSegments are what is pushed and fetched at scale 1.
const backlogSegments = 200

// push does what the agent of a database does with a backlog.
func (j job) push(ctx context.Context, store objstore.Store) error {
	archive := wal.New(store)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelWAL)
	for _, name := range j.Segments {
		group.Go(func() error {
			content, err := os.ReadFile(filepath.Join(j.Folder, name))
			if err != nil {
				return err
			}
			scan, err := postgres.ScanWAL(content, postgres.WALTail{})
			if err != nil {
				return err
			}
			return archive.Put(ctx, lineage, name, content, wal.Info{Writer: "bench", EndLSN: scan.End})
		})
	}
	return group.Wait()
}

// get does what the agent does for a server that recovers.
func (j job) get(ctx context.Context, store objstore.Store) error {
	archive := wal.New(store)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelWAL)
	for _, name := range j.Segments {
		group.Go(func() error {
			content, _, err := archive.Get(ctx, lineage, name)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(j.Folder, name), content, 0o600)
		})
	}
	return group.Wait()
}

// segments are a backlog, made once: the WAL of updates of one table.
func (b *bench) segments(ctx context.Context) (folder string, names []string, err error) {
	folder = filepath.Join(filepath.Dir(b.pg.data), "wal")
	wanted := scaled(backlogSegments, b.scale)
	if names, err = segmentsIn(folder); err == nil && len(names) >= wanted {
		return folder, names[:wanted], nil
	}
	if err := errors.Join(os.RemoveAll(folder), b.runner.folderFor(folder)); err != nil {
		return "", nil, err
	}
	if err := b.pg.collect(folder); err != nil {
		return "", nil, err
	}
	defer os.Remove(b.pg.task)
	err = b.pg.execute(ctx, "CREATE TABLE churn AS SELECT aid, abalance FROM pgbench_accounts LIMIT 100000", "CREATE INDEX ON churn (aid)", "SELECT pg_switch_wal()")
	for len(names) < wanted && err == nil {
		err = b.pg.execute(ctx, "UPDATE churn SET abalance = abalance + 1", "VACUUM churn", "SELECT pg_switch_wal()")
		if err == nil {
			names, err = segmentsIn(folder)
		}
	}
	if err != nil {
		return "", nil, err
	}
	return folder, names[:wanted], b.pg.execute(ctx, "DROP TABLE churn")
}

// segmentsIn are the names of whole segments, in order.
func segmentsIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if _, err := postgres.ParseSegment(entry.Name(), postgres.DefaultSegSize); err == nil {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

func oursPush(ctx context.Context, b *bench, tool string) (measured, error) {
	folder, names, err := b.segments(ctx)
	if err != nil {
		return measured{}, err
	}
	result, err := b.runWorker(ctx, tool, job{Work: workPush, Folder: folder, Segments: names})
	result.segments = len(names)
	return result, err
}

func oursGet(ctx context.Context, b *bench, tool string) (measured, error) {
	_, names, err := b.segments(ctx)
	if err != nil {
		return measured{}, err
	}
	folder := filepath.Join(b.folder, "fetched")
	if err := errors.Join(os.RemoveAll(folder), b.runner.folderFor(folder)); err != nil {
		return measured{}, err
	}
	result, err := b.runWorker(ctx, tool, job{Work: workGet, Folder: folder, Segments: names})
	result.segments = len(names)
	if got, errGot := segmentsIn(folder); err == nil && (errGot != nil || len(got) != len(names)) {
		err = fmt.Errorf("%d of %d segments were fetched: %w", len(got), len(names), errGot)
	}
	return result, err
}
