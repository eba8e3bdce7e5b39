package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// AwaitWaitingCommits returns once a commit was seen to wait for replicas. That is the only evidence there is: whether commits
// wait is one flag in shared memory, which only the checkpointer sets, when it comes to read synchronous_standby_names. While it
// writes a checkpoint to a slow disk that may take minutes, and commits return at once meanwhile, whatever any other process says
// of its settings.
//
// It writes messages to the WAL that nobody reads. The session has the rights of a superuser.
func AwaitWaitingCommits(ctx context.Context, connect func(context.Context) (*pgx.Conn, error)) error {
	watcher, err := connect(ctx)
	if err != nil {
		return err
	}
	defer watcher.Close(context.WithoutCancel(ctx))
	committer, err := connect(ctx)
	if err != nil {
		return err
	}
	pid := committer.PgConn().PID()
	committing, stop := context.WithCancel(ctx)
	var commits sync.WaitGroup
	var commitErr error
	commits.Go(func() {
		commitErr = commitAgain(committing, committer)
		stop()
	})
	err = awaitSyncRep(committing, watcher, pid)
	stop()
	commits.Wait()
	committer.Close(context.WithoutCancel(ctx))
	endSession(ctx, watcher, pid)
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && errors.Is(err, context.Canceled): // the commits have ended first
		return commitErr
	}
	return fmt.Errorf("no commit was seen to wait for a replica: %w", err)
}

// endTime bounds the end of a session: a server that hangs keeps nobody.
const endTime = 3 * time.Second

// endSession ends a session on the server. Its commit may wait for a replica that never comes, which the client's end doesn't end.
func endSession(ctx context.Context, conn *pgx.Conn, pid uint32) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_, _ = conn.Exec(ctx, "SELECT pg_terminate_backend($1)", int32(pid)) // without it, the session ends with the commit
}

// commitPause is between two commits that didn't wait long enough to be seen: a disk that keeps the checkpointer busy has enough
// to do.
const commitPause = 5 * time.Millisecond

// commitAgain commits what says nothing until ctx ends.
func commitAgain(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SET synchronous_commit = on"); err != nil {
		return err
	}
	for {
		if _, err := conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'howdah', '')"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(commitPause):
		}
	}
}

const syncRepPoll = time.Millisecond

// awaitSyncRep waits until a session waits for replicas.
func awaitSyncRep(ctx context.Context, conn *pgx.Conn, pid uint32) error {
	for {
		var waits bool
		err := conn.QueryRow(ctx, "SELECT wait_event = 'SyncRep' IS TRUE FROM pg_stat_get_activity($1)", int32(pid)).Scan(&waits)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return errors.New("the session that commits has ended")
		case err != nil || waits:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(syncRepPoll):
		}
	}
}
