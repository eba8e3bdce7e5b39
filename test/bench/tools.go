package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"howdah.dev/howdah/pkg/backup"
)

// The works, as they stand in the JSON.
const (
	workFull = "full"
	workPush = "wal-push"
	workGet  = "wal-get"
)

// The tools, as they stand in the JSON.
const (
	toolOurs       = "howdah"
	toolOursFast   = "howdah-fast"
	toolOursSmall  = "howdah-small"
	toolPgBackRest = "pgbackrest"
	toolBaseBackup = "pg_basebackup"
)

var allTools = []string{toolOurs, toolOursFast, toolOursSmall, toolPgBackRest, toolBaseBackup}

// act does one work with one tool, once, and says what it cost. What it stored is counted afterwards unless it says so.
type act func(ctx context.Context, b *bench) (measured, error)

var acts = map[string]map[string]act{
	workFull: {
		toolOurs: oursFull(""), toolOursFast: oursFull("Fast"), toolOursSmall: oursFull("Small"),
		toolPgBackRest: restFull, toolBaseBackup: baseBackupFull,
	},
}

// oursFull runs the engine in a process of its own, as the worker of a Job does.
func oursFull(compression backup.Compression) act {
	return func(ctx context.Context, b *bench) (measured, error) {
		return b.runWorker(ctx, job{Work: workFull, ID: "full", Compression: compression})
	}
}

// runWorker starts this program once more, as the runner.
func (b *bench) runWorker(ctx context.Context, j job) (measured, error) {
	if err := b.pg.warm(); err != nil {
		return measured{}, err
	}
	config := b.store.config(storedPrefix)
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
[%[10]s]
pg1-path=%[11]s
pg1-socket-path=%[12]s
pg1-user=postgres
`, strings.TrimSuffix(storedPrefix, "/"), bucket, b.store.address, region, accessKey, b.store.secret, b.store.caFile,
		b.workers, folder, stanza, b.pg.data, b.pg.sockets)
	if !restHasBlocks(ctx) {
		content = strings.Replace(content, "repo1-block=y\n", "", 1)
	}
	if err := os.WriteFile(config, []byte(content), 0o644); err != nil {
		return "", err
	}
	return config, b.runner.run(ctx, toolPgBackRest, "--config="+config, "--stanza="+stanza, "--no-online", "stanza-create")
}

// restHasBlocks tells whether this pgBackRest has block incremental backups, which 2.46 brought.
func restHasBlocks(ctx context.Context) bool {
	var major, minor int
	_, err := fmt.Sscanf(restVersion(ctx), "pgBackRest %d.%d", &major, &minor)
	return err == nil && (major > 2 || minor >= 46)
}

func restVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, toolPgBackRest, "version").Output()
	if err != nil {
		return "no pgBackRest"
	}
	return strings.TrimSpace(string(out))
}

func restFull(ctx context.Context, b *bench) (measured, error) {
	config, err := b.restConfigure(ctx)
	if err != nil {
		return measured{}, err
	}
	if err := b.pg.warm(); err != nil {
		return measured{}, err
	}
	return measure(ctx, b.runner.command(ctx, toolPgBackRest, "--config="+config, "--stanza="+stanza, "--type=full", "backup"))
}

// baseBackupFull lets the server compress, and throws away what comes: PostgreSQL's own tool knows no bucket. The server's
// process counts as the tool's.
func baseBackupFull(ctx context.Context, b *bench) (measured, error) {
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
