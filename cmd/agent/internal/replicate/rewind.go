package replicate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/postgres"
)

// Remedy is what a copy needs before it can follow.
type Remedy int

// The remedies.
const (
	NoRemedy Remedy = iota // it can follow as it is
	ByRewind               // it has WAL that the source has not
	ByClone                // the source has no more the WAL that it needs; the archive may have it
)

// Assess says what a replica that has settled at a position needs to follow the source, and what the history of that is. An
// error says nothing about that.
func (i Instance) Assess(ctx context.Context, source settings.Upstream, at Position) (remedy Remedy, history postgres.TimelineHistory, err error) {
	err = i.with(ctx, source, func(conn *pgx.Conn) error {
		to, err := readTarget(ctx, conn)
		if err != nil {
			return err
		}
		history = to.history
		if diverged(to.history, at.Timeline, at.LSN) {
			remedy = ByRewind
			return nil
		}
		found, err := to.hasSegment(ctx, conn, at.LSN)
		if err == nil && !found {
			remedy = ByClone
		}
		return err
	})
	return remedy, history, err
}

// diverged says whether WAL up to lsn of a timeline is no part of a history.
func diverged(history postgres.TimelineHistory, timeline uint32, lsn postgres.LSN) bool {
	left, is := history.Left(timeline)
	return !is || left > 0 && lsn > left
}

// target is a primary that is to be followed.
type target struct {
	system     string
	history    postgres.TimelineHistory
	checkpoint uint32 // timeline of its last checkpoint
	version    int
	segSize    uint64
}

func readTarget(ctx context.Context, conn *pgx.Conn) (target, error) {
	t := target{}
	var name string
	var checkpoint, segSize int64
	err := conn.QueryRow(ctx, `SELECT (SELECT system_identifier::text FROM pg_control_system()), pg_walfile_name(pg_current_wal_lsn()),
		(SELECT timeline_id FROM pg_control_checkpoint()), current_setting('server_version_num')::int,
		pg_size_bytes(current_setting('wal_segment_size'))`).Scan(&t.system, &name, &checkpoint, &t.version, &segSize)
	if err != nil {
		return t, err
	}
	t.checkpoint, t.segSize = uint32(checkpoint), uint64(segSize)
	segment, err := postgres.ParseSegment(name, t.segSize)
	if err != nil {
		return t, err
	}
	t.history, err = readHistory(ctx, conn, segment.Timeline)
	return t, err
}

// hasSegment says whether the source still has the segment from which a replica at lsn asks for WAL. That in which a
// timeline was left bears the name of the next one, and one that begins at lsn may not be there yet.
func (t target) hasSegment(ctx context.Context, conn *pgx.Conn, lsn postgres.LSN) (found bool, err error) {
	var names []string
	for _, segment := range []postgres.Segment{postgres.SegmentOf(t.history.At(lsn), lsn, t.segSize), postgres.SegmentBefore(t.history.At(lsn), lsn, t.segSize)} {
		names = append(names, segment.Name())
		segment.Timeline = t.history.At(segment.End())
		names = append(names, segment.Name())
	}
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM unnest($1::text[]) AS name WHERE (pg_stat_file('pg_wal/' || name, true)).size IS NOT NULL)`,
		names).Scan(&found)
	return found, err
}

// Rewind makes the copy g fit to follow the source, as a replica; often that takes nothing but a mark. Its server must be
// down, and its lock free. A copy on which it was interrupted, or has failed, has to be cloned: that is ErrClone. Any other
// error may pass.
func (i Instance) Rewind(ctx context.Context, source settings.Upstream, g generation.Generation) error {
	if i.Volume.Rewinding(g.ID) {
		return fmt.Errorf("%w: a rewind of it was interrupted", ErrClone)
	}
	lock, err := i.Volume.Lock(g.ID)
	if err != nil {
		return err
	}
	defer lock.Close()
	pgdata := i.Volume.PGData(g.ID)
	control, err := postgres.ReadControlData(ctx, postgres.Exec, i.BinDir, pgdata)
	if err != nil {
		return errors.Join(ErrClone, err)
	}
	to, err := i.awaitTarget(ctx, source)
	if err != nil {
		return err
	}
	if system := strconv.FormatUint(control.SystemIdentifier, 10); to.system != system {
		return fmt.Errorf("%w: it is of system %s, and %s of system %s", ErrClone, system, source.Pod, to.system)
	}
	if isAncestor(control, to.history) {
		i.Log.Info("nothing to rewind", "source", source.Pod, "copy", g.ID, "state", control.State, "timeline", control.Timeline)
		return settings.MarkStandby(pgdata)
	}
	standby, err := settings.IsStandby(pgdata)
	if err != nil {
		return err
	}
	if err := i.Volume.BeginRewind(g.ID); err != nil {
		return err
	}
	if !control.State.Clean() {
		if err := prepareRecovery(pgdata); err != nil {
			return err
		}
	}
	i.Log.Info("rewinding", "source", source.Pod, "copy", g.ID, "state", control.State, "timeline", control.Timeline)
	begun, err := i.pgRewind(ctx, source, g, lock)
	if err != nil && begun {
		return errors.Join(ErrClone, err)
	}
	if err == nil || standby { // what it was before, or is now
		err = errors.Join(err, settings.MarkStandby(pgdata))
	}
	if err := errors.Join(err, i.Volume.EndRewind(g.ID)); err != nil {
		return err
	}
	if err := i.flush(ctx, source); err != nil {
		i.Log.Info("the replica may wait a while for a quiet primary to write out its WAL", "error", err)
	}
	return nil
}

// flush has the source write out the WAL up to where a rewound copy becomes consistent. A quiet one would take its time: it
// is the transaction's number that makes it do so.
func (i Instance) flush(ctx context.Context, source settings.Upstream) error {
	return i.with(ctx, source, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_current_xact_id()")
		return err
	})
}

// isAncestor says that a data directory surely has nothing that is no part of the history. Only of a primary that was
// shut down in order does pg_control tell where its WAL ends.
func isAncestor(control postgres.ControlData, history postgres.TimelineHistory) bool {
	if control.Timeline == history.Timeline {
		return true
	}
	left, is := history.Left(control.Timeline)
	return is && control.State == postgres.StateShutDown && control.Checkpoint < left
}

// prepareRecovery lets pg_rewind recover a directory after a crash: it does so in a server of its own, which refuses to be
// a replica, and is in doubt about the process number of the dead one.
func prepareRecovery(pgdata string) error {
	if err := os.Remove(filepath.Join(pgdata, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return settings.MarkPrimary(pgdata)
}

const checkpointPoll = 200 * time.Millisecond

// awaitTarget waits until the source has a checkpoint on its timeline: before that pg_rewind takes it for being on the
// one before, and finds nothing to do.
func (i Instance) awaitTarget(ctx context.Context, source settings.Upstream) (to target, err error) {
	err = i.with(ctx, source, func(conn *pgx.Conn) error {
		for {
			if to, err = readTarget(ctx, conn); err != nil || to.checkpoint == to.history.Timeline {
				return err
			}
			if to.version >= 150000 { // where the role may
				if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
					return err
				}
				continue
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(checkpointPoll):
			}
		}
	})
	return to, err
}

// What pg_rewind says. The first is the last before it changes anything.
const (
	saysBegins   = "rewinding from last common checkpoint"
	saysNoServer = "connection to server"
)

// rewindSource is how pg_rewind connects. Its session is idle while it reads what is here.
func (i Instance) rewindSource(source settings.Upstream) string {
	return source.ConnInfo("howdah", "postgres", postgres.SessionOptions(postgres.SessionSettings(i.Major)), i.Paths)
}

// pgRewind runs pg_rewind, and makes nothing durable. begun: it has changed the data directory.
func (i Instance) pgRewind(ctx context.Context, source settings.Upstream, g generation.Generation, lock *os.File) (begun bool, err error) {
	args := []string{
		"--target-pgdata=" + i.Volume.PGData(g.ID), "--source-server=" + i.rewindSource(source), "--no-sync",
	}
	if g.MajorVersion >= 15 { // before, the recovery after a crash goes by the configuration that initdb made
		args = append(args, "--config-file="+settings.ConfFile(i.Paths))
	}
	said := &complaint{}
	err = program{path: filepath.Join(i.BinDir, "pg_rewind"), args: args, lock: lock, line: func(line string) {
		begun = begun || strings.Contains(line, saysBegins)
		said.add(line)
		if line, own := strings.CutPrefix(line, "pg_rewind: "); own {
			i.Log.Info("pg_rewind says", "line", line)
		}
	}}.run(ctx)
	if err != nil && !begun && !said.has(saysNoServer) && ctx.Err() == nil {
		return begun, errors.Join(ErrClone, said.explain(err))
	}
	return begun, said.explain(err)
}
