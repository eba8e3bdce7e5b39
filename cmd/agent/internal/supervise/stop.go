package supervise

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// stopMargin is kept of the grace period for an immediate shutdown and what comes after it.
const stopMargin = 5 * time.Second

// stop ends the server because the pod ends. No client is sent here any more before the sessions are closed.
func (r *runner) stop(server *postmaster.Server, as mode) error {
	defer r.waiting()()
	r.member.Leave()
	if as == primaryMode && r.elects() {
		r.checkpoint(context.Background())
		r.noteDeserted(context.Background())
	}
	err := r.end(server, as)
	r.set(func(status *agentapi.Status) { status.State = agentapi.StateStopped })
	if err != nil {
		r.Log.Error("PostgreSQL has been stopped, but not cleanly", "error", err)
	} else {
		r.Log.Info("PostgreSQL has been stopped")
	}
	return stopped{err}
}

// noteDeserted looks whether any replica is left to take over, after the election was told which. Where all pods end at one time
// they are gone by now: nobody is waited for then, and clients are told at once that there is no primary, rather than when a
// connection to this pod hangs.
func (r *runner) noteDeserted(ctx context.Context) {
	if connected, err := r.tellReplicas(ctx); err != nil || connected > 0 {
		return
	}
	r.withdraw(ctx)
	r.report(func(server *elect.Server) { server.Deserted = true })
}

// deserted says whether no replica was left when the server was told to end.
func (r *runner) deserted() bool {
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	return r.facts.server.Deserted
}

// handOver ends the server because the election wants that: the replicas get everything before.
func (r *runner) handOver(ctx context.Context, server *postmaster.Server, as mode) error {
	defer r.waiting()()
	if as == primaryMode {
		r.checkpoint(ctx)
	}
	if err := r.end(server, as); err != nil {
		r.Log.Warn("PostgreSQL did not shut down cleanly", "error", err)
	}
	if ctx.Err() != nil {
		return stopped{server.Ended()}
	}
	return errChanged
}

const withdrawTime = 2 * time.Second

// end ends the server in order, as far as the grace period allows.
func (r *runner) end(server *postmaster.Server, as mode) error {
	patience, cancel := context.Background(), context.CancelFunc(func() {})
	if r.Grace > 0 {
		patience, cancel = context.WithTimeout(patience, max(r.Grace-stopMargin, r.Grace/2))
	}
	defer cancel()
	r.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStopping, "" })
	r.report(func(server *elect.Server) { server.Mode = elect.Starting })
	r.makeRoom()
	hurry := r.archiver.Stopping
	if r.elects() && !r.deserted() {
		hurry = r.archiver.GivingUp // the others have the WAL, and wait
	}
	hurry(true)
	defer hurry(false)
	if r.settle != nil {
		r.settle()
	}
	r.probe.Close()
	if as == primaryMode && !r.elects() {
		r.withdraw(patience)
	} else {
		r.publisher.Yield()
	}
	err := server.Stop(patience)
	var timeline int64
	var end uint64
	if err == nil && as == primaryMode {
		timeline, end = r.lastLSN()
	}
	r.report(func(server *elect.Server) {
		server.Mode, server.End, server.Position.Timeline = elect.Down, end, timeline
	})
	return err
}

// withdraw sends clients here no more, if the API server hears it in time.
func (r *runner) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTime)
	defer cancel()
	r.publisher.Withdraw(ctx)
}

// kill ends the server at once.
func (r *runner) kill(server *postmaster.Server) {
	r.publisher.Yield()
	postmaster.KillAll(r.adopted.pgdata)
	r.set(func(status *agentapi.Status) { status.State, status.Role = agentapi.StateStopped, "" })
	// What hangs in the kernel ends before it does anything else.
	r.report(func(server *elect.Server) { server.Mode = elect.Down })
	if err := server.CleanUp(); err != nil {
		r.Log.Error("not all of PostgreSQL ends", "error", err)
	}
}

// lastLSN is where the checkpoint of a clean shutdown begins, the last record of all; 0: there was none.
func (r *runner) lastLSN() (timeline int64, lsn uint64) {
	control, err := postgres.ReadControlData(context.Background(), postgres.Exec, r.adopted.binDir, r.adopted.pgdata)
	if err != nil || control.State != postgres.StateShutDown {
		return 0, 0
	}
	return int64(control.Timeline), uint64(control.Checkpoint)
}

// checkpoint while clients still write shortens the time that the server is away.
func (r *runner) checkpoint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(r.Grace/2, 10*time.Second))
	defer cancel()
	err := r.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CHECKPOINT")
		return err
	})
	if err != nil {
		r.Log.Warn("no checkpoint before the shutdown", "error", err)
	}
}

// mayRestart looks once more whether the server would come back.
func (r *runner) mayRestart(ctx context.Context) bool {
	err := r.check(ctx, r.files, r.effect)
	if err == nil {
		return true
	}
	r.Log.Error("PostgreSQL is not restarted: it would not start", "error", err)
	r.set(func(status *agentapi.Status) { status.Message = "the restart was refused: " + sentence(err) })
	return false
}

// restart ends the server so that it is started again.
func (r *runner) restart(ctx context.Context, server *postmaster.Server, as mode) error {
	defer r.waiting()()
	r.Log.Info("restarting PostgreSQL for changed parameters", "config", r.effect.Hash())
	if as == primaryMode {
		r.checkpoint(ctx)
	}
	if ctx.Err() != nil {
		return r.stop(server, as)
	}
	if err := r.end(server, as); err != nil {
		r.Log.Warn("PostgreSQL did not shut down cleanly", "error", err)
	}
	if ctx.Err() != nil { // the pod ended meanwhile; the server did first
		return stopped{server.Ended()}
	}
	return errRestart
}
