package upgradejob

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/extensions"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// How pg_upgrade brings the files over.
const (
	modeCopy  = "--copy"
	modeClone = "--clone"
	modeRange = "--copy-file-range" // within the kernel; from 17 on
	modeLink  = "--link"            // shared, if a person has asked for that
)

// Phases that pg_upgrade runs in.
const (
	phaseChecking  = "CheckingSchema"
	phaseUpgrading = "Upgrading"
)

// pgUpgrade runs pg_upgrade, and reports what it is busy with. What it has found wrong is in the error.
func (w Worker) pgUpgrade(ctx context.Context, phase string, found programs, oldData, newData string, more ...string) error {
	oldOptions, err := w.serverOptions(oldData)
	if err != nil {
		return err
	}
	newOptions, err := w.optionsFor(oldData, newData)
	if err != nil {
		return err
	}
	session, err := environment(oldData)
	if err != nil {
		return err
	}
	args := append([]string{
		"--old-options=" + durable + oldOptions, "--new-options=" + newOptions,
		"--old-bindir=" + found.oldBin, "--new-bindir=" + found.newBin,
		"--old-datadir=" + oldData, "--new-datadir=" + newData,
		"--username=postgres", "--socketdir=" + w.Scratch,
	}, more...)
	cmd := exec.CommandContext(ctx, filepath.Join(found.newBin, "pg_upgrade"), args...)
	cmd.Dir = w.Scratch // it leaves scripts in its working directory
	cmd.Env = append(os.Environ(), session...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	output := w.follow(phase, out)
	if err := cmd.Wait(); err != nil {
		text := complaint(output)
		for _, more := range []string{causes(output), reports(newData)} {
			text = strings.TrimSpace(text + " " + more)
		}
		return job.Final(ReasonUpgradeFailed, fmt.Errorf("pg_upgrade: %w: %s", err, text))
	}
	return nil
}

// durable are options of a server on the old data, which may be the only copy: no setting of ALTER SYSTEM, which has no effect where
// the agent starts the server, lets pg_control say that it was shut down before everything else is on disk. WAL that is not archived yet stays
// until the old version runs again: without archiving, it would be removed at a checkpoint, and an empty command archives nothing.
const durable = "-c fsync=on -c full_page_writes=on -c archive_mode=on -c archive_command='' -c archive_library='' "

// replicationRoom is how many slots and replication origins there is room for: a server with more origins than that ends with a PANIC, and
// pg_upgrade wants room for one of each subscription. It takes a few hundred kilobytes of memory.
const replicationRoom = 1000

// serverOptions are what a server needs to start on the old data, and the new one to take over what is in it: the data directory has
// initdb's configuration, not the cluster's. A server with more slots or a lower wal_level than they need refuses to start, a slot can't be created
// with an output plugin that clients may not use, some
// extensions can't be created without their library, and pg_dump and pg_restore lock every table in one transaction. Huge pages are not
// for a Job, which requests none.
func (w Worker) serverOptions(oldData string) (string, error) { return w.optionsFor(oldData, oldData) }

// optionsFor a server on data that takes over, or is, the old data.
func (w Worker) optionsFor(oldData, data string) (string, error) {
	slots, err := os.ReadDir(filepath.Join(oldData, "pg_replslot"))
	if err != nil {
		return "", fmt.Errorf("count the replication slots: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(oldData, "base", "*", "*"))
	if err != nil {
		return "", err
	}
	const connections, usual = 100, 64 // defaults: the lock table has room for their product
	options := fmt.Sprintf("-c huge_pages=off -c max_connections=%d -c max_locks_per_transaction=%d -c max_replication_slots=%d",
		connections, usual+len(files)/connections, max(len(slots), replicationRoom))
	if len(slots) > 0 {
		options += fmt.Sprintf(" -c wal_level=logical -c max_wal_senders=%d", max(len(slots), 10))
	}
	major, err := majorOf(data)
	if err != nil {
		return "", err
	}
	if major >= 18 {
		options += fmt.Sprintf(" -c %s=%d", originsParameter, replicationRoom)
	}
	found, err := extensions.Find(w.ExtensionsDir, major)
	if err != nil {
		return "", job.Final(ReasonBadImage, err)
	}
	settings := found.Parameters()
	if w.PreloadLibraries != "" {
		settings = append(settings, postgres.Parameter{Name: "shared_preload_libraries", Value: w.PreloadLibraries})
	}
	if w.OutputPlugins != "" && len(slots) > 0 {
		settings = append(settings, postgres.Parameter{Name: outputPluginsParameter, Value: w.OutputPlugins})
	}
	if len(settings) == 0 {
		return options, nil
	}
	conf := filepath.Join(w.Scratch, fmt.Sprintf("server-%d.conf", major))
	return options + " -c config_file=" + conf, writeConf(conf, settings)
}

// writeConf writes what must not be said on a command line, which goes through shells.
func writeConf(path string, settings []postgres.Parameter) error {
	lines, err := postgres.RenderConf(settings)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(lines), 0o600)
}

// environment is that of pg_upgrade and of what it runs: no setting of a role or a database, which the new server gets as well,
// reaches their sessions. A limit that only the new version knows is set nowhere before it runs.
func environment(oldData string) ([]string, error) {
	major, err := majorOf(oldData)
	if err != nil {
		return nil, err
	}
	return []string{"LC_ALL=C", "TZ=UTC", "PGOPTIONS=" + postgres.SessionOptions(postgres.SessionSettings(major))}, nil
}

// majorOf a data directory.
func majorOf(data string) (int, error) {
	content, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0, err
	}
	version, err := postgres.ParseVersion(string(content))
	return version.Major, err
}

// follow collects the output, and shows its lines as they come. It reads to the end even where a line is too long: pg_upgrade would wait for ever
// for somebody to read on.
func (w Worker) follow(phase string, output io.Reader) string {
	var all strings.Builder
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		all.WriteString(line + "\n")
		if doing, _, _ := strings.Cut(line, "  "); doing != "" && !strings.HasPrefix(doing, "-") {
			w.Report(job.Progress{Phase: phase, Message: strings.TrimSpace(doing)})
		}
	}
	_, _ = io.Copy(io.Discard, output)
	return all.String()
}

// reports are the files in which pg_upgrade lists what is in the way, cut to what a person reads.
func reports(newData string) string {
	const limit = 1200
	var all strings.Builder
	_ = filepath.WalkDir(filepath.Join(newData, "pg_upgrade_output.d"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".txt") {
			content, readErr := os.ReadFile(path)
			if readErr == nil {
				all.WriteString(strings.Join(strings.Fields(string(content)), " ") + " ")
			}
		}
		return nil
	})
	if all.Len() > limit {
		return strings.ToValidUTF8(all.String()[:limit], "") + " …"
	}
	return all.String()
}

// modeFor a task.
func (w Worker) modeFor(task agentapi.UpgradeJob) (string, error) {
	if task.Link != nil {
		return modeLink, nil
	}
	return transferMode(w.Volume.Dir(task.ToGeneration), task.ToVersion)
}

// transferMode clones where the filesystem of dir can, else copies, without leaving the kernel where pg_upgrade of that version
// and the kernel can.
func transferMode(dir string, major int) (mode string, err error) {
	source, err := os.CreateTemp(dir, "clone-from-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, source.Close(), os.Remove(source.Name())) }()
	target, err := os.CreateTemp(dir, "clone-to-*")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, target.Close(), os.Remove(target.Name())) }()
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil {
		return modeClone, nil
	}
	if _, err := source.WriteString("x"); err != nil {
		return "", err
	}
	if n, err := unix.CopyFileRange(int(source.Fd()), new(int64), int(target.Fd()), nil, 1, 0); major >= 17 && err == nil && n == 1 {
		return modeRange, nil
	}
	return modeCopy, nil
}

// space is how many bytes the files below dir take, and how many its filesystem has free.
func space(dir string) (used, free int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			used += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return used, int64(stat.Bavail) * stat.Bsize, nil
}

// firstOrdinary is the first number of a file of a table or an index that initdb has not created.
const firstOrdinary = 16384

// catalogs is how many bytes pg_upgrade writes anew whatever becomes of the files of tables and indexes: the system catalogs of all databases,
// and the status of transactions, which it copies.
func catalogs(oldData string) (bytes int64, err error) {
	for _, pattern := range []string{"global/*", "base/*/*", "pg_xact/*", "pg_multixact/*/*"} {
		paths, err := filepath.Glob(filepath.Join(oldData, pattern))
		if err != nil {
			return 0, err
		}
		for _, path := range paths {
			number, _, _ := strings.Cut(filepath.Base(path), ".")
			number, _, _ = strings.Cut(number, "_")
			if n, err := strconv.ParseUint(number, 10, 32); err == nil && n >= firstOrdinary && strings.HasPrefix(pattern, "base/") {
				continue
			}
			info, err := os.Lstat(path)
			if err != nil {
				return 0, err
			}
			bytes += info.Size()
		}
	}
	return bytes, nil
}

// tail is the end of a server's log.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(content[max(0, len(content)-600):])), " ")
}
