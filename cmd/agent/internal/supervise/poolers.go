package supervise

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/member"
	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
)

// withPoolers is a publisher that tells poolers at once what it tells clients by way of the API server.
type withPoolers struct {
	Publisher
	desk *routing.Desk
}

// Set says whether clients may come here.
func (p withPoolers) Set(ready bool) {
	p.desk.Serve(ready)
	p.Publisher.Set(ready)
}

// Withdraw says that no client may come here any more.
func (p withPoolers) Withdraw(ctx context.Context) {
	p.desk.Serve(false)
	p.Publisher.Withdraw(ctx)
}

// Yield leaves it to another primary to say where clients shall go.
func (p withPoolers) Yield() {
	p.desk.Serve(false)
	p.Publisher.Yield()
}

// poolerFacts are what poolers are told of this instance.
func (s *State) poolerFacts() routing.Facts {
	s.mu.Lock()
	facts := routing.Facts{Pod: s.status.Pod, DataGeneration: s.status.DataGeneration}
	elected := s.member
	s.mu.Unlock()
	if elected == nil {
		return facts
	}
	// While an orderly end is under way it is still the primary, and nobody else is.
	want := elected.Want()
	facts.Leads = want.Until > elected.Now() && (want.Role == elect.Lead || want.Role == elect.Stop && want.Orderly)
	if status := elected.Status(); status != nil {
		facts.LeaseCreated, facts.Term = status.LeaseCreated, status.Term
	}
	return facts
}

// Respond answers a pooler, when what it knows is no longer true, or after a while.
func (s *Supervisor) Respond(ctx context.Context, request agentapi.PoolerRequest) agentapi.PoolerAnswer {
	return s.poolers.Respond(ctx, request)
}

const (
	// askedTime is how long the server may take to say whose transactions are open.
	askedTime = time.Second
	// mostNamed are how many of them a message names.
	mostNamed = 5
	// stepTime is more than the election needs to decide anew.
	stepTime = time.Second
)

// openTransactions are those of poolers, the oldest first. What they do is nobody's business.
const openTransactions = `SELECT pid, usename, datname, extract(epoch FROM clock_timestamp() - xact_start)::float8
	FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
	WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND client_dn = '/CN=' || $1::text ORDER BY xact_start LIMIT $2`

// takenBack says whether a handover was given up, because transactions of a pooler didn't end that asks for this. The server continues then, and so
// do the poolers' clients.
func takenBack(ctx context.Context, s *server) bool {
	if s.as != primaryMode {
		return false
	}
	against := s.poolers.Against()
	if len(against) == 0 {
		return false
	}
	reason := fmt.Sprintf("transactions of %s didn't end within %v, and its Pooler says spec.handover.onTimeout: TakeBack%s",
		strings.Join(against, ", "), routing.Patience, named(ctx, s))
	if !member.TakeBack(s.election.Member, reason) {
		return false
	}
	s.Log.Warn("the handover is cancelled", "reason", reason)
	s.poolers.TakeBack()
	return true
}

// named are the open transactions of poolers, for a message.
func named(ctx context.Context, s *server) string {
	ctx, cancel := context.WithTimeout(ctx, askedTime)
	defer cancel()
	var all []string
	err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, openTransactions, agentapi.PoolerRole, mostNamed)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			var pid int32
			var user, database string
			var seconds float64
			err := row.Scan(&pid, &user, &database, &seconds)
			return fmt.Sprintf("pid %d of %s in %s, open for %.0f s", pid, user, database, seconds), err
		})
		return err
	})
	if err != nil || len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, "; ")
}

// awaitChange gives the election the time to want something else of the server.
func awaitChange(ctx context.Context, e *election) {
	limited, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	for e.Want().Role == elect.Stop {
		select {
		case <-e.Changed():
		case <-limited.Done():
			return
		}
	}
}

// warnPoolers lets the poolers end their transactions before a server ends. Nobody waits where clients come directly.
func (s *server) warnPoolers(ctx context.Context) {
	if s.as != primaryMode {
		sendReadersAway(ctx, s)
		return
	}
	if paused, late := s.poolers.Pause(ctx); paused+late > 0 {
		s.Log.Info("poolers were told that PostgreSQL is about to end", "paused", paused, "late", late)
	}
}

const (
	// readersLeave is how long a replica waits for poolers to send their readers elsewhere, where none of these is at work. Those of a pooler in session
	// mode stay.
	readersLeave = time.Second
	leavePoll    = 20 * time.Millisecond
)

// readers are sessions of poolers, and how many of these are at work.
const readers = `SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
	WHERE backend_type = 'client backend' AND client_dn = '/CN=' || $1::text`

// sendReadersAway has the primary tell the poolers that this replica is about to end, and waits until what their clients read has ended.
func sendReadersAway(ctx context.Context, s *server) {
	ctx, cancel := context.WithTimeout(ctx, routing.Patience)
	defer cancel()
	if !member.Leave(ctx, s.election.Member) {
		return
	}
	for begin := time.Now(); ctx.Err() == nil; {
		var sessions, busy int
		err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, readers, agentapi.PoolerRole).Scan(&sessions, &busy)
		})
		if err != nil || sessions == 0 || busy == 0 && time.Since(begin) >= readersLeave {
			return
		}
		select {
		case <-time.After(leavePoll):
		case <-ctx.Done():
			s.Log.Warn("transactions of readers are ended", "sessions", busy)
		}
	}
}
