package deepcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/local"
)

const (
	mostLarge    = 200         // indexes of a round that are postponed
	mostTries    = 6           // of one of them, before the round goes on without it
	disturbEach  = time.Second // between two looks at whether the check disturbs somebody
	lowNice      = 10          // of the process that does it
	errorReplays = "40001"     // serialization_failure: a replica needs the lock to replay WAL
)

// Large is an index that takes longer than others may.
type Large struct {
	Database string `json:"database"`
	OID      uint32 `json:"oid"`
	Index    string `json:"index"`
	Certain  bool   `json:"certain,omitempty"`
	// Tries that ended early.
	Tries int `json:"tries,omitempty"`
}

// postpone says whether an index is checked at the end of the round, because it takes longer than others may.
func (w *Walker) postpone(db database, index index, found result) bool {
	if !tooLong(found.err) || w.Limits.Long <= w.Limits.Each || len(w.place.Large) >= mostLarge {
		return false
	}
	w.place.Trying = nil
	w.place.Large = append(w.place.Large, Large{Database: db.Name, OID: index.OID, Index: index.Name, Certain: index.Certain})
	w.save()
	return true
}

// HasLarge says whether large indexes are next: all others of the round are checked.
func (w *Walker) HasLarge() bool {
	w.load()
	return w.passed && len(w.place.Large) > 0
}

// Long checks one large index. What disturbs somebody is tried again later, a few times.
func (w *Walker) Long(parent context.Context) error {
	w.load()
	if len(w.place.Large) == 0 {
		return nil
	}
	large := w.place.Large[0]
	w.try(large.Database, large.Index)
	found, err := w.alone(parent, large)
	w.place.Trying = nil
	if parent.Err() != nil { // the server is about to end; it is the first of the next turn
		w.save()
		return parent.Err()
	}
	w.place.Large = slices.Delete(w.place.Large, 0, 1)
	db, index := database{Name: large.Database}, index{OID: large.OID, Name: large.Index, Certain: large.Certain}
	early := earlyEnd(found, err)
	switch large.Tries++; {
	case early == "" && tooLong(found.err):
		w.skip(db, index, why(found.err, w.Limits.Long), true)
	case early == "":
		w.note(db, index, found)
	case large.Tries < mostTries:
		w.place.Large = append(w.place.Large, large)
	default:
		w.skip(db, index, fmt.Sprintf("its check was ended %d times, the last time because %s", large.Tries, early), false)
	}
	w.save()
	return nil
}

// disturbance is why a check was ended early.
type disturbance string

func (d disturbance) Error() string { return string(d) }

// earlyEnd says why a check has come to no result of its own; empty: it has.
func earlyEnd(found result, err error) string {
	reason, fault := disturbance(""), &pgconn.PgError{}
	switch {
	case errors.As(err, &reason):
		return string(reason)
	case err != nil:
		return why(err, 0)
	case errors.As(found.err, &fault) && fault.Code == errorReplays:
		return "the replay of WAL waited for it"
	case found.err != nil && !tooLong(found.err):
		return why(found.err, 0)
	}
	return ""
}

// alone checks an index in a session of its own, at a low priority.
func (w *Walker) alone(parent context.Context, large Large) (found result, err error) {
	ctx, cancel := context.WithTimeout(parent, 2*w.Limits.Long+w.Limits.Turn) // damage is looked at twice
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	server := w.Server
	server.LockTimeout = lockTime
	err = server.With(ctx, large.Database, func(conn *pgx.Conn) error {
		checker, finish, err := w.begin(ctx, conn, w.Limits.Long)
		if err != nil {
			return local.Plain(err)
		}
		if checker == nil {
			return errors.New("the database has no amcheck that can be trusted any more")
		}
		defer finish()
		pid := conn.PgConn().PID()
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, int(pid), lowNice); err != nil {
			w.Log.Debug("the check of a large index has the priority of any session", "error", err)
		}
		watched := make(chan struct{})
		go func() { defer close(watched); w.watch(ctx, pid, stop) }()
		found = checker.twice(ctx, large.OID)
		reason := context.Cause(ctx)
		stop(nil)
		<-watched
		if found.err == nil {
			return nil // it has come to a result nevertheless
		}
		return reason
	})
	return found, err
}

// watch ends the check by the session with this process ID once it disturbs somebody.
func (w *Walker) watch(ctx context.Context, pid uint32, stop context.CancelCauseFunc) {
	tick := time.NewTicker(disturbEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if w.Disturbs == nil {
			continue
		}
		if reason := w.Disturbs(ctx, pid); reason != "" {
			stop(disturbance(reason))
			return
		}
	}
}
