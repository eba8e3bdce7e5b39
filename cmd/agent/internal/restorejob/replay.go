package restorejob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

const (
	autoConf = recovery.AutoConf
	stopTime = 10 * time.Minute // for the last checkpoint
)

// errShort is PostgreSQL's complaint about a target beyond the end of WAL.
var errShort = errors.New("recovery ended before configured recovery target was reached")

func (r *restoring) configDir() string { return filepath.Join(r.RunDir, "recovery") }

// replay runs a server on the fetched data until it has replayed to the target, and shuts it down.
func (r *restoring) replay(ctx context.Context) (agentapi.RestoreResult, error) {
	spool := generation.WAL(r.Volume).Beside(r.task.DataGeneration, "spool")
	if err := os.MkdirAll(spool, 0o700); err != nil {
		return agentapi.RestoreResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	archive := wal.New(r.store)
	r.noteExtent(ctx, archive)
	source := newSource(archive, r.task.Lineage, r.last, spool, r.progress())
	source.keep = !r.task.Target.End()
	listener, err := walsocket.Listen(r.SocketDir)
	if err != nil {
		return agentapi.RestoreResult{}, err
	}
	served := make(chan error, 1)
	go func() { served <- walsocket.Serve(ctx, listener, source) }()

	notes := &notes{}
	err = r.replayTo(ctx, r.task.Target, source, notes)
	if errors.Is(err, errShort) && r.endsInPlan() {
		// No record begins at the wanted position or after it, so everything there is comes before it.
		r.Log.Info("Nothing lies beyond the requested LSN; replaying to the end", "lsn", r.task.Target.LSN)
		err = r.replayTo(ctx, agentapi.RestoreTarget{}, source, notes)
	}
	cancel()
	if err = errors.Join(err, source.close(), <-served); err != nil {
		return agentapi.RestoreResult{}, err
	}
	r.Report(job.Progress{Phase: phaseFinishing, Message: "making the data durable"})
	return r.finish(context.WithoutCancel(ctx), source.lacking(), spool, notes)
}

// endsInPlan says that the wanted LSN is not beyond the last planned segment.
func (r *restoring) endsInPlan() bool {
	lsn, err := postgres.ParseLSN(r.task.Target.LSN)
	return err == nil && !lsn.IsZero() && lsn <= r.last.End()
}

// progress tells how far replay is by what it asks for.
func (r *restoring) progress() func(postgres.Segment) {
	first, err := postgres.ParseSegment(r.manifest.WAL.First, r.last.SegSize)
	if err != nil {
		first = r.last
	}
	total := int64(r.last.Number-first.Number+1) * int64(r.last.SegSize)
	return func(s postgres.Segment) {
		done := int64(s.Number-first.Number) * int64(s.SegSize)
		r.Report(job.Progress{
			Phase: phaseReplaying, DoneBytes: max(0, done), TotalBytes: max(total, done),
			Message: fmt.Sprintf("replay is in segment %s (LSN %s)", s, s.Start()),
		})
	}
}

// replayTo runs the server once: until it has reached the target and was shut down, or gave up.
func (r *restoring) replayTo(ctx context.Context, target agentapi.RestoreTarget, source *source, notes *notes) error {
	r.toTheEnd = target.End()
	if err := r.configure(ctx, target); err != nil {
		return err
	}
	lock, err := r.Volume.Lock(r.task.DataGeneration)
	if err != nil {
		return err
	}
	defer lock.Close()
	server, err := postmaster.Start(postmaster.Spec{
		BinDir: r.binDir, PGData: r.pgdata, Lock: lock, Log: slog.New(notes.over(r.Log.Handler())),
		Args: []string{"-c", "config_file=" + filepath.Join(r.configDir(), recovery.ConfFile)},
	})
	if err != nil {
		return err
	}
	promoted := recovery.AwaitPromotion(ctx, server, r.pgdata)
	var errQuiet error
	if promoted {
		errQuiet = r.goBack(ctx)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	errStop := server.Stop(patience)
	switch {
	case source.failed() != nil:
		return r.explain(source.failed())
	case ctx.Err() != nil:
		return ctx.Err()
	case errQuiet != nil:
		return errQuiet
	case promoted && errStop != nil:
		return fmt.Errorf("PostgreSQL was not shut down cleanly after replay: %w", errStop)
	case promoted:
		return nil
	}
	return r.complaint(server.Complaint(), source.lacking())
}

// complaint makes an error of what PostgreSQL said last, and of the segment that it asked for in vain.
func (r *restoring) complaint(said, lacked string) error {
	switch {
	case strings.Contains(said, errShort.Error()) && lacked != "":
		return r.explain(fmt.Errorf("%w: segment %s of lineage %s", errMissing, lacked, r.task.Lineage))
	case strings.Contains(said, "No space left on device"):
		return fmt.Errorf("%w: %s", unix.ENOSPC, said)
	case strings.Contains(said, errShort.Error()):
		return job.Final(ReasonUnreachable, fmt.Errorf("%w: WAL up to %s doesn't lead to %s", errShort, r.task.LastWAL, describe(r.task.Target)))
	case strings.Contains(said, "before consistent recovery point"):
		return job.Final(ReasonUnreachable, fmt.Errorf("%s is before the end of backup %s: %s", describe(r.task.Target), r.manifest.ID, said))
	case said == "":
		said = "it said nothing"
	}
	return fmt.Errorf("PostgreSQL gave up replaying WAL: %s", said)
}

// explain names what a missing segment means.
func (r *restoring) explain(err error) error {
	if errors.Is(err, errMissing) {
		return job.Final(ReasonUnreachable, fmt.Errorf("%w; it was there when the restore was planned. %s can't be reached without it: restore another backup",
			err, describe(r.task.Target)))
	}
	return err
}

func describe(target agentapi.RestoreTarget) string {
	switch {
	case target.Time != nil:
		return "time " + target.Time.UTC().Format(time.RFC3339Nano)
	case target.LSN != "":
		return "LSN " + target.LSN
	case target.RestorePoint != "":
		return fmt.Sprintf("restore point %q", target.RestorePoint)
	case target.XID != 0:
		return fmt.Sprintf("transaction %d", target.XID)
	case target.Immediate:
		return "the end of the backup"
	}
	return "the end of the archive"
}

// configure writes the server's files. What ALTER SYSTEM has set doesn't count here, and is put aside.
func (r *restoring) configure(ctx context.Context, target agentapi.RestoreTarget) error {
	control, err := postgres.ReadControlData(ctx, r.Run, r.binDir, r.pgdata)
	if err != nil {
		return err
	}
	if err := recovery.WriteConfig(r.configDir(), append(parameters(r, control, target), r.extensions.Parameters()...)); err != nil {
		return err
	}
	if err := recovery.PutAside(r.pgdata, r.Volume.Dir(r.task.DataGeneration)); err != nil {
		return err
	}
	return recovery.Replace(r.pgdata, map[string]string{
		"recovery.signal": "", "standby.signal": recovery.Remove, "postmaster.pid": recovery.Remove, "postmaster.opts": recovery.Remove,
		"backup_label.old": recovery.Remove, "tablespace_map.old": recovery.Remove,
	})
}

// notes keeps what the server's log tells about recovery.
type notes struct {
	mu         sync.Mutex
	lastCommit *time.Time
}

func (n *notes) over(handler slog.Handler) slog.Handler { return &listening{handler, n} }

// commit is the time of the last transaction that was replayed, or nil.
func (n *notes) commit() *time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastCommit
}

// listening is a log handler that takes notes.
type listening struct {
	slog.Handler
	notes *notes
}

// Handle takes a note, and passes the record on.
func (l *listening) Handle(ctx context.Context, record slog.Record) error {
	if at, found := parseCommitTime(record.Message); found {
		l.notes.mu.Lock()
		l.notes.lastCommit = &at
		l.notes.mu.Unlock()
	}
	return l.Handler.Handle(ctx, record)
}
