package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
)

// restorePoint is where a restore to a point ends.
const restorePoint = "bench"

// replayed is the WAL that every tool has in its archive.
type replayed struct {
	folder string
	names  []string
}

func restoreOf(work, tool string) act {
	ours := compressions[tool] != ""
	switch {
	case tool == toolOursUndo && work != workDelta:
		return nil // it is only another way of that
	case tool == toolOursUndo:
		return oursDeltaBeside
	case work == workPITR && ours:
		return oursToPoint
	case work == workPITR:
		return restToPoint
	case work == workDelta && ours:
		return oursDelta
	case work == workDelta:
		return restDelta
	case ours:
		return oursRestore
	}
	return restRestore
}

// restored is where something is restored to now.
func (b *bench) restored() string {
	return filepath.Join(b.restoredBefore(), strconv.Itoa(b.restores))
}

func (b *bench) restoredBefore() string { return filepath.Join(b.folder, "restored") }

// nextRestored makes room for the next restore. What was restored before stays as long as there is room: for a minute after
// files were deleted ext4 is slow at making new ones.
func (b *bench) nextRestored() error {
	b.restores++
	size, _, err := b.pg.size()
	stat := unix.Statfs_t{}
	if err = errors.Join(err, unix.Statfs(b.folder, &stat)); err != nil {
		return err
	}
	if int64(stat.Bavail)*stat.Bsize > 4*size && b.restores > 1 {
		return nil
	}
	return errors.Join(os.RemoveAll(b.restoredBefore()), b.runner.folderFor(b.restoredBefore()))
}

// prepareRestore makes full backups, once, and of delta-restore and pitr what comes after them: the change, and WAL.
func (b *bench) prepareRestore(ctx context.Context, work string, tools []string) error {
	if b.wal == nil {
		if err := b.prepareBackups(ctx, b.tools); err != nil { // what comes later may want others
			return err
		}
	}
	switch {
	case work == workDelta && b.pg.changes == 0:
		return b.pg.change(ctx, workAdjacent)
	case work == workPITR && len(b.wal.names) == 0:
		return b.prepareWAL(ctx, tools)
	}
	return nil
}

// prepareBackups begins with a segment of its own: WAL from there on is what a restore to a point needs.
func (b *bench) prepareBackups(ctx context.Context, tools []string) error {
	if err := b.store.clear(ctx, ""); err != nil {
		return err
	}
	b.wal = &replayed{folder: filepath.Join(b.pg.data, "pg_wal")}
	for _, tool := range tools {
		if _, err := actOf(workFull, tool)(ctx, b, tool); err != nil {
			return fmt.Errorf("%s by %s: %w", workFull, tool, err)
		}
	}
	return nil
}

// prepareWAL makes WAL after the backups, and archives all that the server still has.
func (b *bench) prepareWAL(ctx context.Context, tools []string) error {
	err := b.pg.execute(ctx, "CREATE TABLE churn AS SELECT aid, abalance FROM pgbench_accounts LIMIT 100000", "CREATE INDEX ON churn (aid)")
	for range scaled(backlogSegments, b.scale) / 2 { // each about two segments
		err = errors.Join(err, b.pg.execute(ctx, "UPDATE churn SET abalance = abalance + 1", "VACUUM churn"))
	}
	if err != nil {
		return err
	}
	if b.wal.names, err = b.pg.endWAL(ctx); err != nil {
		return err
	}
	for _, tool := range tools {
		push := b.pushOurs
		if tool == toolPgBackRest {
			push = b.pushRest
		}
		if err := push(ctx, tool); err != nil {
			return fmt.Errorf("archive WAL by %s: %w", tool, err)
		}
	}
	return b.pg.execute(ctx, "DROP TABLE churn")
}

// endWAL makes the restore point, and returns all segments up to it that are there.
func (s *server) endWAL(ctx context.Context) ([]string, error) {
	if err := s.execute(ctx, fmt.Sprintf("SELECT pg_create_restore_point('%s')", restorePoint)); err != nil {
		return nil, err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	last := ""
	if err := conn.QueryRow(ctx, "SELECT pg_walfile_name(pg_switch_wal())").Scan(&last); err != nil {
		return nil, err
	}
	names, err := segmentsIn(filepath.Join(s.data, "pg_wal"))
	// Behind the last one are names for later.
	return slices.DeleteFunc(names, func(name string) bool { return name > last }), err
}

func (b *bench) pushOurs(ctx context.Context, tool string) error {
	_, err := b.runWorker(ctx, tool, job{Work: workPush, Folder: b.wal.folder, Segments: b.wal.names})
	return err
}

// restoreOnce restores into an empty folder. What the tool has stored is what it restores from.
func (b *bench) restoreOnce(ctx context.Context, work, tool string) (measured, error) {
	if err := b.nextRestored(); err != nil {
		return measured{}, err
	}
	if err := b.pg.warm(); err != nil {
		return measured{}, err
	}
	unix.Sync() // what was written before isn't part of what is measured
	result, err := actOf(work, tool)(ctx, b, tool)
	if err != nil {
		return result, err
	}
	result.stored, result.objects, err = b.store.count(ctx, prefixOf(tool), work == workPITR)
	return result, err
}

// oursRestore runs the engine in a process of its own.
func oursRestore(ctx context.Context, b *bench, tool string) (measured, error) {
	return b.restoreBeside(ctx, tool, "")
}

// oursDelta changes a copy of the data where it is, as a restore does that gives up the previous data.
func oursDelta(ctx context.Context, b *bench, tool string) (measured, error) {
	if err := b.copyData(ctx); err != nil {
		return measured{}, err
	}
	return b.runWorker(ctx, tool, job{Work: workRestore, ID: "full", Target: b.restored(), InPlace: true})
}

// oursDeltaBeside takes from the server's own folder, where nobody writes meanwhile, and leaves it as it is.
func oursDeltaBeside(ctx context.Context, b *bench, tool string) (measured, error) {
	return b.restoreBeside(ctx, tool, b.pg.data)
}

func (b *bench) restoreBeside(ctx context.Context, tool, present string) (measured, error) {
	if err := b.runner.folderFor(b.restored()); err != nil {
		return measured{}, err
	}
	return b.runWorker(ctx, tool, job{Work: workRestore, ID: "full", Target: b.restored(), Present: present})
}

// copyData makes a copy of the server's data to restore over, all of it on the disk.
func (b *bench) copyData(ctx context.Context) error {
	children, err := os.ReadDir(b.pg.data)
	if err != nil {
		return err
	}
	err = errors.Join(b.runner.folderFor(b.restored()), b.runner.folderFor(filepath.Join(b.restored(), "pg_wal")))
	for _, child := range children {
		if err != nil {
			return err
		}
		if child.Name() != "pg_wal" && child.Name() != "postmaster.pid" {
			err = b.copyTree(ctx, filepath.Join(b.pg.data, child.Name()), b.restored())
		}
	}
	unix.Sync()
	return err
}

// restore does what the worker of a restore Job does before it replays.
func (j job) restore(ctx context.Context, store objstore.Store) error {
	manifest, err := backup.ReadManifest(ctx, store, lineage, j.ID)
	if err != nil {
		return err
	}
	last := backup.Progress{}
	opts := backup.RestoreOptions{Workers: j.Workers, Present: j.Present, InPlace: j.InPlace, Progress: func(p backup.Progress) { last = p }}
	if j.InPlace {
		if opts.Difference, err = backup.Compare(ctx, store, manifest, j.Target, opts); err != nil {
			return err
		}
	}
	err = backup.Restore(ctx, store, manifest, j.Target, opts)
	if err == nil && (j.Present != "" || j.InPlace) && last.Taken < last.Total/2 {
		return fmt.Errorf("only %d of %d bytes were taken from the present data", last.Taken, last.Total)
	}
	return err
}

// oursToPoint runs the worker of a restore Job as it is in the image, with a folder in the place of the pod's root.
func oursToPoint(ctx context.Context, b *bench, tool string) (measured, error) {
	root, err := b.podRoot(tool)
	if err != nil {
		return measured{}, err
	}
	defer os.RemoveAll(root)
	result, err := measure(ctx, b.runner.command(ctx, filepath.Join(root, agentapi.AgentPath), "restore", "--root="+root))
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(root, agentapi.TerminationLog)) // it only says more
		err = fmt.Errorf("%w: %s", err, said)
	}
	return result, err
}

func (b *bench) podRoot(tool string) (root string, err error) {
	if root, err = os.MkdirTemp("", "howdah-bench-pod"); err != nil {
		return "", err
	}
	volume := filepath.Join(root, agentapi.VolumeDir)
	for _, file := range []string{agentapi.AgentPath, agentapi.JobFile, agentapi.TerminationLog, agentapi.S3Dir + "/x", agentapi.SocketDir + "/x", agentapi.VolumeDir} {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
	}
	config := b.store.config(prefixOf(tool))
	config.CredentialsDir = filepath.Join(root, agentapi.S3Dir)
	task, errTask := json.Marshal(agentapi.RestoreJob{
		Repository: config, Lineage: lineage, BackupID: "full", DataGeneration: "restored", MajorVersion: b.pg.version.Major,
		Target: agentapi.RestoreTarget{RestorePoint: restorePoint}, Timeline: 1, LastWAL: b.wal.names[len(b.wal.names)-1],
	})
	err = errors.Join(err, errTask, b.runner.folderFor(b.restored()), os.Symlink(b.restored(), volume),
		os.WriteFile(filepath.Join(root, agentapi.JobFile), task, 0o644),
		os.WriteFile(filepath.Join(config.CredentialsDir, objstore.AccessKeyIDFile), []byte(config.Credentials.AccessKeyID), 0o644),
		os.WriteFile(filepath.Join(config.CredentialsDir, objstore.SecretAccessKeyFile), []byte(config.Credentials.SecretAccessKey), 0o644),
		copyFile(os.Getenv("AGENT"), filepath.Join(root, agentapi.AgentPath)), os.Chmod(filepath.Join(root, agentapi.AgentPath), 0o755),
		copyFile(os.Getenv("WAL"), filepath.Join(root, agentapi.WALPath)), os.Chmod(filepath.Join(root, agentapi.WALPath), 0o755))
	if out, errChown := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", b.runner.uid, b.runner.gid), root).CombinedOutput(); errChown != nil {
		err = errors.Join(err, fmt.Errorf("%w: %s", errChown, out))
	}
	return root, err
}
