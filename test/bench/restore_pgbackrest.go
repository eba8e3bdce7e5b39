package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// restTo runs pgBackRest's restore into the folder of all restores.
func (b *bench) restTo(args ...string) []string {
	return append(append(b.restOptions(), "--pg1-path="+b.restored()), args...)
}

func restRestore(ctx context.Context, b *bench, _ string) (measured, error) {
	if err := b.runner.folderFor(b.restored()); err != nil {
		return measured{}, err
	}
	return measure(ctx, b.runner.command(ctx, restProgram, append(b.restTo(), "restore")...))
}

// restDelta restores over a copy of the data: pgBackRest knows no other way.
func restDelta(ctx context.Context, b *bench, _ string) (measured, error) {
	if err := b.copyData(ctx); err != nil {
		return measured{}, err
	}
	return measure(ctx, b.runner.command(ctx, restProgram, append(b.restTo("--delta"), "restore")...))
}

func (b *bench) copyTree(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

// pushRest gives pgBackRest all segments, one process each, as archive_command does.
func (b *bench) pushRest(ctx context.Context, _ string) error {
	pgWAL, _, err := b.makeRestPGDATA()
	if err != nil {
		return err
	}
	for _, name := range b.wal.names {
		to := filepath.Join(pgWAL, name)
		if err := errors.Join(copyFile(filepath.Join(b.wal.folder, name), to), os.Chown(to, b.runner.uid, b.runner.gid)); err != nil {
			return err
		}
		if err := b.runner.run(ctx, restProgram, append(b.restOptions(), "--pg1-path="+b.restPGDATA(), "archive-push", to)...); err != nil {
			return err
		}
	}
	return os.RemoveAll(b.restPGDATA())
}

// recovery is a restore and the server after it, which one process of ours runs to its promotion, so that all of it is in
// one account.
type recovery struct {
	Restore []string // program and arguments
	Server  []string
	PGData  string
}

// recoverVerb makes this program that process.
const recoverVerb = "recover"

func restToPoint(ctx context.Context, b *bench, _ string) (measured, error) {
	if err := b.runner.folderFor(b.restored()); err != nil {
		return measured{}, err
	}
	sockets := filepath.Join(b.folder, "pgbackrest")
	task, err := json.Marshal(recovery{
		Restore: append(append([]string{restProgram}, b.restTo("--type=name", "--target="+restorePoint, "--target-action=promote",
			"--target-timeline=current")...), "restore"),
		Server: []string{filepath.Join(b.pg.bin, "postgres"), "-D", b.restored(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + sockets,
			"-c", "archive_mode=off", "-c", "hot_standby=off", "-c", "autovacuum=off", "-c", "checkpoint_timeout=15min"},
		PGData: b.restored(),
	})
	if err != nil {
		return measured{}, err
	}
	cmd := b.runner.command(ctx, b.pg.worker, recoverVerb)
	cmd.Stdin = strings.NewReader(string(task))
	return measure(ctx, cmd)
}

func runRecovery(ctx context.Context) error {
	var r recovery
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, r.Restore[0], r.Restore[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var said strings.Builder
	server := exec.Command(r.Server[0], r.Server[1:]...)
	server.Stdout, server.Stderr = &said, &said
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its memory isn't the tool's, as in our worker
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	alive, end := context.WithCancel(ctx)
	defer end()
	go func() {
		ended <- server.Wait()
		end()
	}()
	ready := awaitReady(alive, filepath.Join(r.PGData, "postmaster.pid"))
	_ = server.Process.Signal(os.Interrupt) // it may have ended by itself
	if err := <-ended; err != nil || !ready {
		return fmt.Errorf("PostgreSQL did not come up, or not down: %w: %s", err, said.String())
	}
	return nil
}

// awaitReady returns when the server accepts connections, which one without hot_standby does after its recovery only. False:
// the server has ended.
func awaitReady(ctx context.Context, pidFile string) bool {
	for {
		content, _ := os.ReadFile(pidFile) // it isn't there at first
		if strings.Contains(string(content), "\nready") {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(sampling):
		}
	}
}
