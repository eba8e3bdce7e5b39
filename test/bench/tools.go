package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/backup"
)

// The works, as they appear in the JSON.
const (
	workFull     = "full"
	workAdjacent = "incremental-adjacent"
	workRandom   = "incremental-random"
	workPush     = "wal-push"
	workGet      = "wal-get"
	workRestore  = "restore"
	workDelta    = "delta-restore"
	workPITR     = "pitr"
)

// The tools, as they appear in the JSON.
const (
	toolOurs       = "howdah"
	toolOursFast   = "howdah-fast"
	toolOursSmall  = "howdah-small"
	toolOursUndo   = "howdah-undo"
	toolPgBackRest = "pgbackrest"
	toolBaseBackup = "pg_basebackup"
)

var allTools = []string{toolOurs, toolOursFast, toolOursSmall, toolPgBackRest, toolBaseBackup}

// compressions are those of our own tools.
var compressions = map[string]backup.Compression{
	toolOurs: backup.CompressionBalanced, toolOursFast: backup.CompressionFast, toolOursSmall: backup.CompressionSmall,
	toolOursUndo: backup.CompressionBalanced,
}

// act does one work with one tool, once, and says what it cost. What it stored is counted afterwards unless it says so.
type act func(ctx context.Context, b *bench, tool string) (measured, error)

// actOf is what a tool does of a work, nil if nothing.
func actOf(work, tool string) act {
	ours := compressions[tool] != ""
	switch {
	case slices.Contains(restores.works, work):
		return restoreOf(work, tool)
	case work == workFull && ours:
		return oursFull
	case work == workFull && tool == toolPgBackRest:
		return restFull
	case work == workFull:
		return baseBackupFull
	case (work == workAdjacent || work == workRandom) && ours:
		return oursIncremental
	case (work == workAdjacent || work == workRandom) && tool == toolPgBackRest:
		return restIncremental
	case work == workPush && tool == toolOurs:
		return oursPush
	case work == workPush && tool == toolPgBackRest:
		return restPush
	case work == workGet && tool == toolOurs:
		return oursGet
	case work == workGet && tool == toolPgBackRest:
		return restGet
	}
	return nil
}

// prefixOf is where a tool stores what is counted.
func prefixOf(tool string) string { return "stored/" + tool + "/" }

// oursFull runs the engine in a process of its own, as the worker of a Job does.
func oursFull(ctx context.Context, b *bench, tool string) (measured, error) {
	return b.runWorker(ctx, tool, job{Work: workFull, ID: "full"})
}

func oursIncremental(ctx context.Context, b *bench, tool string) (measured, error) {
	return b.runWorker(ctx, tool, job{Work: workFull, ID: "incremental", Parent: "full"})
}

// runWorker starts this program once more, as the runner.
func (b *bench) runWorker(ctx context.Context, tool string, j job) (measured, error) {
	if err := b.pg.warm(); err != nil {
		return measured{}, err
	}
	config := b.store.config(prefixOf(tool))
	j.Compression = compressions[tool]
	j.Store, j.Credentials = config, *config.Credentials
	j.DataDir, j.Server, j.Workers = b.pg.data, b.pg.address(), b.workers
	task, err := json.Marshal(j)
	if err != nil {
		return measured{}, err
	}
	cmd := b.runner.command(ctx, b.pg.worker, workerVerb)
	cmd.Stdin = strings.NewReader(string(task))
	if err := os.WriteFile(b.pg.task, task, 0o644); err != nil {
		return measured{}, err
	}
	defer os.Remove(b.pg.task)
	return measure(ctx, cmd)
}

// copyOfThisProgram is made where the runner may execute it.
func copyOfThisProgram(folder string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "worker")
	return program, os.WriteFile(program, content, 0o755)
}

const stanza = "bench"

// restProgram is where Debian's package has it.
const restProgram = "/usr/bin/pgbackrest"

// restConfigure writes pgBackRest's configuration for a repository of its own, and makes its stanza.
func (b *bench) restConfigure(ctx context.Context) (config string, err error) {
	folder := filepath.Join(b.folder, "pgbackrest")
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := b.runner.folderFor(folder); err != nil {
		return "", err
	}
	config = filepath.Join(folder, "pgbackrest.conf")
	content := fmt.Sprintf(`[global]
repo1-type=s3
repo1-path=/%[1]s
repo1-s3-bucket=%[2]s
repo1-s3-endpoint=%[3]s
repo1-s3-region=%[4]s
repo1-s3-key=%[5]s
repo1-s3-key-secret=%[6]s
repo1-s3-uri-style=path
repo1-storage-ca-file=%[7]s
repo1-bundle=y
repo1-block=y
compress-type=zst
compress-level=3
process-max=%[8]d
start-fast=y
archive-check=n
archive-mode-check=n
log-level-file=off
log-level-console=warn
log-path=%[9]s
lock-path=%[9]s
spool-path=%[9]s
[global:archive-get]
archive-async=y
[%[10]s]
pg1-path=%[11]s
pg1-socket-path=%[12]s
pg1-user=postgres
`, strings.TrimSuffix(prefixOf(toolPgBackRest), "/"), bucket, b.store.address, region, accessKey, b.store.secret, b.store.caFile,
		b.workers, folder, stanza, b.pg.data, b.pg.sockets)
	if !b.restHasBlocks(ctx) {
		content = strings.Replace(content, "repo1-block=y\n", "", 1)
	}
	if err := os.WriteFile(config, []byte(content), 0o644); err != nil {
		return "", err
	}
	return config, b.runner.run(ctx, restProgram, "--config="+config, "--stanza="+stanza, "--no-online", "stanza-create")
}

// restHasBlocks tells whether this pgBackRest has block incremental backups, which 2.46 brought.
func (b *bench) restHasBlocks(ctx context.Context) bool {
	var major, minor int
	_, err := fmt.Sscanf(b.restVersion(ctx), "pgBackRest %d.%d", &major, &minor)
	return err == nil && (major > 2 || minor >= 46)
}

func (b *bench) restVersion(ctx context.Context) string {
	out, err := b.runner.command(ctx, restProgram, "version").Output()
	if err != nil {
		return "no pgBackRest"
	}
	return strings.TrimSpace(string(out))
}

func restFull(ctx context.Context, b *bench, _ string) (measured, error) {
	if _, err := b.restConfigure(ctx); err != nil {
		return measured{}, err
	}
	return restBackup(ctx, b, "full")
}

func restIncremental(ctx context.Context, b *bench, _ string) (measured, error) {
	return restBackup(ctx, b, "incr")
}

func restBackup(ctx context.Context, b *bench, kind string) (measured, error) {
	if err := b.pg.warm(); err != nil {
		return measured{}, err
	}
	return measure(ctx, b.runner.command(ctx, restProgram, append(b.restOptions(), "--type="+kind, "backup")...))
}

// restOptions name the configuration that restConfigure has written.
func (b *bench) restOptions() []string {
	return []string{"--config=" + filepath.Join(b.folder, "pgbackrest", "pgbackrest.conf"), "--stanza=" + stanza}
}

// baseBackupFull lets the server compress, and throws away what comes: PostgreSQL's own tool knows no bucket. The server's
// process counts as the tool's.
func baseBackupFull(ctx context.Context, b *bench, _ string) (measured, error) {
	if err := b.pg.warm(); err != nil {
		return measured{}, err
	}
	before := endedChildren(b.pg.cmd.Process.Pid)
	received := counter(0)
	cmd := b.runner.command(ctx, filepath.Join(b.pg.bin, toolBaseBackup), "--host="+b.pg.sockets, "--username=postgres",
		"--pgdata=-", "--format=tar", "--wal-method=none", "--checkpoint=fast", "--no-password", "--no-manifest",
		fmt.Sprintf("--compress=server-zstd:level=3,workers=%d", b.workers))
	cmd.Stdout = &received
	result, err := measure(ctx, cmd)
	if err == nil {
		err = awaitEnd(ctx, b.pg.cmd.Process.Pid, "walsender")
	}
	result.cpu += endedChildren(b.pg.cmd.Process.Pid) - before
	result.stored, result.objects = int64(received), 1
	return result, err
}
