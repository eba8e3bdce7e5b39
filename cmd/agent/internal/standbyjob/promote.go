package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/logicalslot"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// mayPromote says whether the data may be promoted now, and if not, why. The end of the archive is looked for once: a source that is alive may
// write for ever.
func (w *Worker) mayPromote(ctx context.Context, look *look) (bool, []agentapi.StandbyProblem) {
	if w.record.Order == agentapi.PromoteImmediately {
		w.source.serve(nothing)
		if look.seen.connected {
			return true, nil
		}
		return false, []agentapi.StandbyProblem{{Reason: agentapi.StandbyNotFollowing, Message: "The data isn't consistent yet, so PostgreSQL can't be promoted. " +
			"If the WAL that it needs is lost, delete this PostgresCluster, and restore an older backup."}}
	}
	w.source.serve(everything)
	if !look.targetKnown {
		look.aim(ctx)
	}
	problems := look.seen.obstacle(look.target, look.targetError, look.now())
	if len(problems) > 0 {
		return false, problems
	}
	w.Log.Info("Everything in the archive is replayed", "end", look.target.end, "replayed", look.seen.replayed)
	w.source.serve(nothing) // what the source has archived since doesn't hold the promotion up
	return true, nil
}

// aim finds out where the archive ends now.
func (l *look) aim(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, tipTime)
	defer cancel()
	found, err := readTip(limited, l.store, l.record.Lineage, l.from())
	if err == nil && l.seen.tipKnown && found.lacks(l.seen.tip, l.seen.replayed) {
		err = fmt.Errorf("the archive went to LSN %s before, and lacks WAL up to there now", l.seen.tip.end())
	}
	if err == nil {
		l.target, err = found.target(limited, l.store, l.record.Lineage)
	}
	if err != nil {
		l.targetError = explain(err)
		return
	}
	l.seen.tip, l.seen.tipKnown, l.seen.tipError = found, true, ""
	l.source.reaches(found)
	l.targetKnown, l.targetError = true, ""
}

// promoteTime is how long a promotion may take before it is tried again with another server.
const promoteTime = 10 * time.Minute

// promote promotes the running server, and leaves it as data of a cluster of its own.
func (w *Worker) promote(ctx context.Context, server *postmaster.Server) error {
	limited, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	if err := w.database().With(limited, "postgres", func(conn *pgx.Conn) error {
		return replicate.Promote(limited, replicate.In(conn), func(postgres.LSN) {})
	}); err != nil {
		return err
	}
	w.Log.Info("Promoted the standby", "lineage", w.record.Lineage)
	return w.settle(ctx, server)
}

// settle keeps subscriptions and slots of promoted data from continuing where others are ahead of it.
func (w *Worker) settle(ctx context.Context, server *postmaster.Server) error {
	if !recovery.AwaitPromotion(ctx, server, w.pgdata()) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return ended(server)
	}
	back := logicalslot.Back{Copy: true, Subscriptions: true, Slots: w.Task.LostSlots}
	_, err := logicalslot.GoBack(ctx, w.database(), back, w.Log)
	return err
}

// finish leaves the data as a server that was stopped leaves it. The caller makes it complete.
func (w *Worker) finish(ctx context.Context) error {
	control, err := w.control(ctx)
	if err != nil {
		return err
	}
	if control.State != postgres.StateShutDown {
		return fmt.Errorf("the promoted data is %q, not shut down", control.State)
	}
	if _, err := os.Stat(filepath.Join(w.pgdata(), "pg_wal", postgres.HistoryName(control.Timeline))); err != nil {
		return fmt.Errorf("the promoted data is on timeline %d, which did not begin here: %w", control.Timeline, err)
	}
	dropped, err := recovery.TakeBack(w.pgdata(), w.folder(), w.Task.Repository.Encryption != nil)
	if len(dropped) > 0 {
		w.Log.Warn("Parameters of postgresql.auto.conf were removed, because anybody with access to the bucket could have written them", "parameters", dropped)
	}
	return errors.Join(err, recovery.NoteArchive(w.pgdata(), control.Timeline), os.RemoveAll(w.configDir()))
}

// configure writes the server's files. It is a standby that nobody reaches but the superuser of this container, to look at the data.
func (w *Worker) configure(ctx context.Context) error {
	control, err := w.control(ctx)
	if err != nil {
		return err
	}
	size, _, err := generation.WAL(w.Volume).On().Space()
	if err != nil {
		return err
	}
	return recovery.WriteConfig(w.configDir(), postgres.MergeParameters(
		recovery.Parameters(control, w.configDir(), w.SocketDir, w.Task.PreloadLibraries),
		postgres.VolumeParameters(size, int64(control.SegSize)),
		postgres.ParameterList(map[string]string{
			"checkpoint_timeout":          "5min",
			"fsync":                       "on", // the next server continues with what this one has replayed
			"hot_standby":                 "on",
			"max_standby_archive_delay":   "30s",
			"max_standby_streaming_delay": "30s",
			"recovery_target_timeline":    targetTimeline(control, w.astray || w.record.Order == agentapi.PromoteImmediately),
			"restore_command":             walsocket.CommandLine(w.WAL, walsocket.VerbFetch, w.SocketDir, "%f", "%p"),
			"wal_retrieve_retry_interval": fmt.Sprintf("%dms", w.Retry.Milliseconds()),
		}),
		recovery.Memory(w.Memory), w.Extensions,
	))
}

func (w *Worker) spec(lock *os.File, look *look) postmaster.Spec {
	return postmaster.Spec{
		BinDir: w.BinDir, PGData: w.pgdata(), Lock: lock, Log: slog.New(look.over(w.Log.Handler())),
		Args: []string{"-c", "config_file=" + filepath.Join(w.configDir(), recovery.ConfFile)},
	}
}
