package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// follow has a server replay the archive until the data is promoted and shut down. It outlasts servers that end by themselves, and archives
// that can't be read.
func (w *Worker) follow(ctx context.Context) error {
	if err := postmaster.RemoveStalePID(w.pgdata()); err != nil {
		return err
	}
	control, err := w.control(ctx)
	if err != nil {
		return err
	}
	if w.source, err = newSource(w.store, w.record.Lineage, w.spool(), control.SegSize, w.Retry); err != nil {
		return err
	}
	stop, err := w.listen(ctx)
	if err != nil {
		return err
	}
	look := &look{Worker: w, now: time.Now}
	look.seen.replayed = control.Redo // at least
	for {
		err := w.serve(ctx, look)
		switch {
		case err == nil:
			settled := w.record
			settled.Settled = true
			return errors.Join(w.note(settled), stop())
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), stop())
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errEnough):
			return errors.Join(err, stop())
		}
		look.seen.connected, look.seen.complaint = false, err.Error()
		w.Log.Warn("PostgreSQL gave up replaying WAL, and is started again", "error", err)
		if look.reinitDue(ctx) {
			return errors.Join(w.beginReinit(look), stop())
		}
		look.fill(&w.report)
		w.exchange(ctx, append(look.plan.problems(), look.seen.problems(look.now())...)...)
		select {
		case <-ctx.Done():
		case <-time.After(w.Retry):
		}
	}
}

// listen answers restore_command until stop is called.
func (w *Worker) listen(ctx context.Context) (stop func() error, err error) {
	listener, err := walsocket.Listen(w.SocketDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- walsocket.Serve(ctx, listener, w.source) }()
	return func() error {
		cancel()
		return errors.Join(<-served, w.source.close(), os.RemoveAll(w.spool()))
	}, nil
}

func (w *Worker) control(ctx context.Context) (postgres.ControlData, error) {
	return postgres.ReadControlData(ctx, w.Run, w.BinDir, w.pgdata())
}

// How a server ended, other than by itself.
var errAgain = errors.New("to be started again at once")

// errEnough is what ends a server so that another copy can be made or taken.
var errEnough = errors.New("enough was followed with this copy")

// errByHand is a server that somebody has promoted in the pod.
var errByHand = errors.New("somebody has promoted PostgreSQL, which follows the source no more: set spec.standby.promote: Immediately to have the cluster " +
	"continue with that, or delete this PostgresCluster and create it again")

// promoted says whether the last server on the data was promoted. PostgreSQL removes the signal before it writes the history of the new timeline and
// records that in pg_control: data of a promotion that was killed in between becomes a standby again.
func (w *Worker) promoted(ctx context.Context) (bool, error) {
	standby, err := settings.IsStandby(w.pgdata())
	if err != nil || standby {
		return false, err
	}
	control, err := w.control(ctx)
	if err != nil {
		return false, err
	}
	if writes(control.State) && w.record.stage() != agentapi.StandbyPromoting {
		return false, errByHand
	}
	if writes(control.State) {
		return true, nil
	}
	w.Log.Warn("A promotion was interrupted; the data becomes a standby again, to begin another timeline", "state", control.State)
	return false, w.standBy()
}

// writes says whether the last server on data without a standby.signal has accepted writes, or could have. One that was still recovering has not.
func writes(state postgres.ClusterState) bool {
	switch state {
	case postgres.StateInArchiveRecovery, postgres.StateShutDownRecovery:
		return false
	}
	return true
}

// serve runs a server until it ends by itself, has to be started again, or was promoted and shut down, which is no error.
func (w *Worker) serve(ctx context.Context, look *look) (err error) {
	promoted, err := w.promoted(ctx)
	if err != nil {
		return err
	}
	if !promoted {
		if err := look.prepare(ctx); err != nil {
			return err
		}
	}
	if err := w.configure(ctx); err != nil {
		return err
	}
	lock, err := w.Volume.Lock(w.DataGeneration)
	if err != nil {
		return err
	}
	defer lock.Close()
	server, err := postmaster.Start(w.spec(lock, look))
	if err != nil {
		return err
	}
	if promoted {
		err = w.settle(ctx, server)
	} else {
		err = w.oversee(ctx, server, look)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	errStop := server.Stop(patience)
	switch {
	case err != nil:
		return err
	case errStop != nil:
		return fmt.Errorf("PostgreSQL was not shut down cleanly after the promotion: %w", errStop)
	}
	return nil
}

// prepare looks at the archive before a server is started, so that it is known which numbers of timelines were skipped, and whether the newest
// timeline can be followed.
func (l *look) prepare(ctx context.Context) error {
	if l.record.Order != agentapi.PromoteImmediately {
		l.archive(ctx)
	}
	control, err := l.control(ctx)
	if err != nil {
		return err
	}
	return l.lookAstray(ctx, control, l.seen.tip.latest)
}

const stopTime = 10 * time.Minute // for the last checkpoint

// oversee looks at a standby's server until it was promoted, which is no error.
func (w *Worker) oversee(ctx context.Context, server *postmaster.Server, look *look) error {
	look.begin()
	for {
		look.server(ctx, server.Accepting())
		if look.seen.writes {
			return errByHand
		}
		if look.lacksSettings(ctx) {
			w.Log.Info("The source now runs with higher settings, which the standby must have, too; PostgreSQL is restarted")
			return errAgain
		}
		if w.record.Order != agentapi.PromoteImmediately && look.due() {
			look.archive(ctx)
		}
		if w.until != nil {
			if err := w.until(look.seen); err != nil {
				return err
			}
		}
		if look.reinitDue(ctx) {
			return w.beginReinit(look)
		}
		ready := false
		problems := append(look.plan.problems(), look.seen.problems(look.now())...)
		if w.record.Order != "" {
			ready, problems = w.mayPromote(ctx, look)
		}
		look.fill(&w.report)
		w.exchange(ctx, problems...)
		if ready {
			return w.promote(ctx, server)
		}
		select {
		case <-server.Done():
			return ended(server)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look.pause()):
		}
	}
}

func ended(server *postmaster.Server) error {
	complaint := server.Complaint()
	if complaint == "" {
		complaint = fmt.Sprint(server.Ended())
	}
	return errors.Join(errors.New(complaint), server.CleanUp())
}
