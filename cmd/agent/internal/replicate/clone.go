package replicate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
)

// Wanted says what to clone.
type Wanted struct {
	DataGeneration string
	MajorVersion   int
	// SystemIdentifier that the source must have; empty: any.
	SystemIdentifier string
	// Replaces is the copy that is unfit; empty: none. It becomes the new one where there is no room for both.
	Replaces string
	// Kept: that copy is fit, or a person may want it, so it stays until there is a new one. Without room for both there is none.
	Kept bool
	// KeptOld: copies that were replaced before stay as well.
	KeptOld bool
	// Released are data generations that nobody wants any more. What is left of them is removed first where there is no room.
	Released []string
}

// Clone makes a new copy of what the source serves, a replica of it, and returns it whole but not adopted. It reports
// progress in bytes; the total is an estimate of the source's. What a failed one leaves is removed. Nobody else may work
// on the volume. Errors: ErrNoRoom, ErrForeign.
func (i Instance) Clone(ctx context.Context, source settings.Upstream, wanted Wanted, progress func(done, total int64)) (generation.Generation, error) {
	none := generation.Generation{}
	at, err := i.inspect(ctx, source)
	if err != nil {
		return none, err
	}
	if wanted.SystemIdentifier != "" && at.system != wanted.SystemIdentifier {
		return none, fmt.Errorf("%w: %s is of system %s, and this one is of system %s", ErrForeign, source.Pod, at.system, wanted.SystemIdentifier)
	}
	reused, err := i.makeRoom(at.bytes, wanted)
	if err != nil {
		return none, err
	}
	id, err := i.Volume.NextCopy(wanted.DataGeneration)
	if err != nil {
		return none, err
	}
	pgdata, err := i.Volume.Begin(id)
	if err != nil {
		return none, err
	}
	g := generation.Generation{
		ID: id, Of: wanted.DataGeneration, SystemIdentifier: at.system, MajorVersion: wanted.MajorVersion,
		Origin: generation.Clone, From: source.Pod, CreatedAt: i.Now().UTC(),
	}
	i.Log.Info("cloning", "source", source.Pod, "copy", id, "bytes", at.bytes, "slot", at.slot)
	if reused != "" {
		err = i.takeOver(ctx, source, id, reused)
	}
	if err == nil {
		err = i.fetch(ctx, source, at, i.ownFiles(wanted, pgdata), id, progress)
	}
	if err == nil {
		err = i.finish(ctx, g, pgdata)
	}
	if err != nil {
		return none, errors.Join(fmt.Errorf("clone %s: %w", source.Pod, err), i.Volume.Remove(id))
	}
	return g, nil
}

// origin is what is known of a source before it is cloned.
type origin struct {
	system string
	bytes  int64
	slot   string // ours, if it may be used
}

func (i Instance) inspect(ctx context.Context, source settings.Upstream) (at origin, err error) {
	err = i.with(ctx, source, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT (SELECT system_identifier::text FROM pg_control_system()),
			(SELECT sum(pg_database_size(oid))::bigint FROM pg_database),
			coalesce((SELECT slot_name::text FROM pg_replication_slots WHERE slot_name = $1 AND slot_type = 'physical'
				AND NOT active AND wal_status IS DISTINCT FROM 'lost'), '')`, SlotName(i.Pod)).Scan(&at.system, &at.bytes, &at.slot)
	})
	return at, err
}

// makeRoom sees to it that a clone of this size finds room, if need be by the removal of copies that are of no more use. Where
// there is room only if one of those becomes the clone, it returns that one and leaves it.
func (i Instance) makeRoom(bytes int64, wanted Wanted) (reused string, err error) {
	needed := Room(bytes)
	replaced := wanted.Replaces
	if wanted.Kept {
		replaced = ""
	}
	steps := []func() error{
		func() error { return nil },
		func() error { _, err := i.Volume.RemoveIncomplete(); return err },
		func() error { return i.removeOld(wanted) },
		func() error { reused, err = i.reusable(needed, i.releasedCopy(wanted)); return err },
		func() error { return i.abandon(wanted) },
		func() error { reused, err = i.reusable(needed, replaced); return err }, // last: somebody may want to look at it
	}
	var free int64
	for _, step := range steps {
		if err := step(); err != nil || reused != "" {
			return reused, err
		}
		if _, free, err = i.Volume.Space(); err != nil || free >= needed {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: it needs %d MB, and %d MB are free", ErrNoRoom, needed>>20, free>>20)
}

// removeOld removes copies that were replaced before.
func (i Instance) removeOld(wanted Wanted) error {
	if wanted.KeptOld {
		return nil
	}
	_, err := i.Volume.RemoveOldCopies(wanted.Replaces, 0, i.Now())
	return err
}

// releasedCopy is the current copy, if it is of data that was released and nothing else is to be replaced; empty: it isn't.
func (i Instance) releasedCopy(wanted Wanted) string {
	current, err := i.Volume.Current()
	if err != nil || wanted.Replaces != "" {
		return ""
	}
	g, err := i.Volume.Read(current)
	if err != nil || g.DataGeneration() == wanted.DataGeneration || !slices.Contains(wanted.Released, g.DataGeneration()) {
		return ""
	}
	return current
}

// reusable is a copy that nobody wants any more, if its files can become the clone. Empty: it would leave too little room.
func (i Instance) reusable(needed int64, id string) (string, error) {
	entries, err := i.Volume.List()
	if err != nil {
		return "", err
	}
	_, free, err := i.Volume.Space()
	at := slices.IndexFunc(entries, func(e generation.Entry) bool { return e.ID == id })
	if err != nil || at < 0 || free+entries[at].Bytes < needed || i.Major < deltaMajor {
		return "", err
	}
	i.Log.Warn("the copy that is replaced becomes the new one: there is no room for both", "copy", id)
	return id, nil
}

// abandon removes what nobody wants any more, even if `current` still points there: nobody starts it again.
func (i Instance) abandon(wanted Wanted) error {
	for _, unwanted := range wanted.Released {
		if unwanted == wanted.DataGeneration {
			continue
		}
		removed, err := i.Volume.Abandon(unwanted)
		if err != nil {
			return err
		}
		if len(removed) > 0 {
			i.Log.Info("removed data generations that are no longer needed before there is new data: there is no room for both", "generations", removed)
		}
	}
	return nil
}

// fetch copies the data directory of the source. What the data directory own has as well is not sent: after an upgrade or a restore in
// place that is nearly all. Where this can't be done, everything is fetched.
func (i Instance) fetch(ctx context.Context, source settings.Upstream, at origin, own, id string, progress func(done, total int64)) error {
	pgdata := i.Volume.PGData(id)
	if own != "" && i.Major >= deltaMajor {
		taken, err := i.deltaClone(ctx, source, at, own, id, progress)
		if err == nil {
			i.Log.Info("cloned with files of this volume", "source", source.Pod, "files", own, "bytesTaken", taken)
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		i.Log.Warn("files of this volume can't be used for the clone; everything is fetched", "source", source.Pod, "error", err)
	}
	if err := os.RemoveAll(pgdata); err != nil {
		return err
	}
	return i.baseBackup(ctx, source, at, id, progress)
}

// ownFiles is the data directory on this volume that is likeliest to have the files of the source: what is in pgdata already, else
// that of the copy which is replaced, else the current one. It is compared, so it may be unfit. Empty: there is none.
func (i Instance) ownFiles(wanted Wanted, pgdata string) string {
	own := []string{pgdata}
	if wanted.Replaces != "" {
		own = append(own, i.Volume.PGData(wanted.Replaces))
	}
	if current, err := i.Volume.Current(); err == nil {
		own = append(own, i.Volume.PGData(current))
	}
	for _, dir := range own {
		if info, err := os.Stat(filepath.Join(dir, "base")); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// baseBackup copies the data directory of the source, if possible by the slot of this instance.
func (i Instance) baseBackup(ctx context.Context, source settings.Upstream, at origin, id string, progress func(done, total int64)) error {
	wal, err := generation.WAL(i.Volume).New(id)
	if err != nil {
		return err
	}
	var more []string
	if at.slot != "" {
		more = append(more, "--slot="+at.slot)
	}
	return BaseBackup(ctx, i.BinDir, source.ConnInfo("", "", "", i.Paths), i.Volume.PGData(id), wal, progress, more...)
}

// BaseBackup runs pg_basebackup into pgdata, and has pg_wal there be a link to the folder wal, unless that is empty. It syncs nothing: Volume.Complete does.
// Without --slot among more, the source keeps WAL for it by a temporary slot, which goes with the connection.
func BaseBackup(ctx context.Context, binDir, connInfo, pgdata, wal string, progress func(done, total int64), more ...string) error {
	if wal != "" {
		more = append(more, "--waldir="+wal)
	}
	args := append([]string{
		"--pgdata=" + pgdata, "--dbname=" + connInfo, "--no-password", "--progress",
		"--wal-method=stream", "--checkpoint=fast", "--no-sync", "--no-manifest",
	}, more...)
	said := &complaint{}
	err := program{path: filepath.Join(binDir, "pg_basebackup"), args: args, line: func(line string) {
		if done, total, is := parseProgress(line); is {
			progress(done, total)
			return
		}
		said.add(line)
	}}.run(ctx)
	return said.explain(err)
}

var progressLine = regexp.MustCompile(`^\s*(\d+)/(\d+) kB \(`)

// parseProgress reads a line like "  1234/56789 kB (2%), 0/1 tablespace".
func parseProgress(line string) (done, total int64, is bool) {
	found := progressLine.FindStringSubmatch(line)
	if found == nil {
		return 0, 0, false
	}
	done, errDone := strconv.ParseInt(found[1], 10, 54)
	total, errTotal := strconv.ParseInt(found[2], 10, 54)
	return done << 10, total << 10, errDone == nil && errTotal == nil
}

// finish makes a replica of a fetched data directory, checks what it is, and makes the copy whole.
func (i Instance) finish(ctx context.Context, g generation.Generation, pgdata string) error {
	control, err := postgres.ReadControlData(ctx, postgres.Exec, i.BinDir, pgdata)
	if err != nil {
		return err
	}
	if system := strconv.FormatUint(control.SystemIdentifier, 10); system != g.SystemIdentifier {
		return fmt.Errorf("%w: what was fetched is of system %s", ErrForeign, system)
	}
	content, err := os.ReadFile(filepath.Join(pgdata, "PG_VERSION"))
	if err != nil {
		return err
	}
	if version, err := postgres.ParseVersion(string(content)); err != nil || version.Major != g.MajorVersion {
		return fmt.Errorf("what was fetched is of PostgreSQL %s instead of %d", strings.TrimSpace(string(content)), g.MajorVersion)
	}
	if err := unarchive(filepath.Join(pgdata, "pg_wal")); err != nil {
		return err
	}
	if err := settings.MarkStandby(pgdata); err != nil {
		return err
	}
	return i.Volume.Complete(g)
}

// unarchive has the WAL that came with the clone asked for by archive_command. pg_basebackup takes most of it for archived,
// which the source may not have done yet, and notes nothing of the last segment.
func unarchive(walDir string) error {
	entries, err := os.ReadDir(walDir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, err := postgres.ParseSegment(entry.Name(), postgres.MinSegSize); err != nil { // the size with the most names
			continue
		}
		note := filepath.Join(walDir, "archive_status", entry.Name())
		if err := os.Remove(note + ".done"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(note+".ready", nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// complaint keeps the last of what a program has said.
type complaint struct{ lines []string }

const maxComplaint = 40 // lines

func (c *complaint) add(line string) {
	if len(c.lines) == maxComplaint {
		c.lines = c.lines[1:]
	}
	c.lines = append(c.lines, line)
}

// has says whether the program has said this.
func (c *complaint) has(text string) bool { return strings.Contains(strings.Join(c.lines, "\n"), text) }

// explain adds to the error of a program what it has said was wrong.
func (c *complaint) explain(err error) error {
	if err == nil {
		return nil
	}
	var wrong []string
	for _, line := range c.lines {
		_, text, found := strings.Cut(line, ": error: ")
		if !found {
			_, text, found = strings.Cut(line, "FATAL: ")
		}
		if text = strings.TrimSpace(text); found && text != "" {
			wrong = append(wrong, text)
		}
	}
	if len(wrong) == 0 && len(c.lines) > 0 {
		wrong = c.lines[len(c.lines)-1:]
	}
	if len(wrong) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", err, strings.Join(wrong, "; "))
}
