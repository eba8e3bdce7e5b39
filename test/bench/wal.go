package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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

// oursPush is the archiver of the agent, and archive_command for each segment.
func oursPush(ctx context.Context, b *bench, tool string) (measured, error) {
	folder, names, err := b.segments(ctx)
	if err != nil {
		return measured{}, err
	}
	if err := b.runner.folderFor(filepath.Join(folder, "archive_status")); err != nil {
		return measured{}, err
	}
	return b.runArchiver(ctx, tool, workPush, folder, len(names))
}

// oursGet is what answers a server that recovers, and its restore_command.
func oursGet(ctx context.Context, b *bench, tool string) (measured, error) {
	folder, names, err := b.segments(ctx)
	if err != nil {
		return measured{}, err
	}
	into := b.fetchedInto()
	defer os.RemoveAll(into) // after what is measured, as for all tools
	if err := b.runner.folderFor(into); err != nil {
		return measured{}, err
	}
	return b.runArchiver(ctx, tool, workGet, folder, len(names))
}

// fetchedInto is where fetched segments go.
func (b *bench) fetchedInto() string { return filepath.Join(filepath.Dir(b.pg.data), "fetched") }

// archiverTests are what a program of the agent's tests does for each work: what is inside of the agent can be called from
// there only.
var archiverTests = map[string]string{workPush: "TestABacklogIsPushed", workGet: "TestABacklogIsFetched"}

// runArchiver runs one of them.
func (b *bench) runArchiver(ctx context.Context, tool, work, folder string, segments int) (measured, error) {
	config := b.store.config(prefixOf(tool))
	config.CredentialsDir = filepath.Join(b.folder, "credentials")
	program, tests := filepath.Join(b.folder, "wal"), filepath.Join(b.folder, "archiver")
	store, err := json.Marshal(config)
	err = errors.Join(err, os.MkdirAll(config.CredentialsDir, 0o755),
		os.WriteFile(filepath.Join(config.CredentialsDir, objstore.AccessKeyIDFile), []byte(config.Credentials.AccessKeyID), 0o644),
		os.WriteFile(filepath.Join(config.CredentialsDir, objstore.SecretAccessKeyFile), []byte(config.Credentials.SecretAccessKey), 0o644),
		copyFile(os.Getenv("WAL"), program), copyFile(os.Getenv("ARCHIVER"), tests), os.Chmod(program, 0o755), os.Chmod(tests, 0o755))
	if err != nil {
		return measured{}, err
	}
	cmd := b.runner.command(ctx, tests, "-test.run", "^"+archiverTests[work]+"$", "-test.timeout", "1h")
	cmd.Env = append(os.Environ(), "HOWDAH_BENCH="+work, "HOWDAH_BENCH_WAL="+folder, "HOWDAH_BENCH_COMMAND="+program, "HOWDAH_BENCH_FETCHED="+b.fetchedInto(),
		"HOWDAH_BENCH_STORE="+string(store), "HOWDAH_BENCH_SEGMENTS="+strconv.Itoa(segments))
	if path := os.Getenv("PROFILE"); path != "" {
		cmd.Args = append(cmd.Args, "-test.cpuprofile", path+".cpu", "-test.memprofile", path+".mem")
	}
	result, err := measure(ctx, cmd)
	result.segments = segments
	return result, err
}
