package supervise

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// recoveredMessage is shown until it is known what is missing.
const recoveredMessage = "PostgreSQL has recovered from a crash, and refuses clients until replicas have all its WAL."

// closedPoll is how often a primary that refuses clients looks at what its replicas have.
const closedPoll = 50 * time.Millisecond

// crashed says whether the last server of the adopted copy was a primary that was not shut down. The next one makes commits visible that
// waited for replicas, and whoever takes over may lack them. One that was shut down has sent everything to its replicas.
func (r *runner) crashed(ctx context.Context) bool {
	control, err := postgres.ReadControlData(ctx, postgres.Exec, r.adopted.binDir, r.adopted.pgdata)
	return err != nil || control.State != postgres.StateShutDown
}

// entrance of a primary that refuses clients until enough replicas have what it has recovered. Only the loop uses it, but for look.
type entrance struct {
	*shared
	safe chan struct{} // has a value when clients may be let in; nil: they are
	stop context.CancelFunc
	end  uint64 // of what was recovered; 0: not known yet
}

// close begins to look, and says what is waited for.
func (e *entrance) close(ctx context.Context) {
	ctx, e.stop = context.WithCancel(ctx)
	e.safe = make(chan struct{}, 1)
	go e.look(ctx, e.safe)
}

// look tells safe whenever clients may be let in, until ctx ends.
func (e *entrance) look(ctx context.Context, safe chan<- struct{}) {
	tick := time.NewTicker(closedPoll)
	defer tick.Stop()
	for {
		covered, missing := e.covered(ctx)
		switch {
		case covered:
			select {
			case safe <- struct{}{}:
			default:
			}
		case missing != "":
			e.set(func(status *agentapi.Status) {
				if ctx.Err() == nil { // clients may have been let in meanwhile
					status.Closed = missing
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// covered says whether nobody who lacks what was recovered can take over, by what the Lease says and by what is to become of it; if not,
// what is missing, unless that can't be found out.
func (e *entrance) covered(ctx context.Context) (_ bool, missing string) {
	want := e.election.Want() // before the server is asked: whoever is a member by then
	status := e.election.Status()
	var written replicate.Written
	var followers []replicate.Follower
	err := e.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		written, followers, err = replicate.Followers(ctx, conn)
		return err
	})
	if err != nil || want.Role != elect.Lead {
		return false, ""
	}
	if e.end == 0 {
		e.end = uint64(written.LSN)
	}
	syncs := []elect.Sync{want.Sync}
	if status != nil {
		syncs = append(syncs, elect.Sync{Quorum: status.Quorum, Members: status.Members})
	}
	for _, sync := range syncs {
		if have(followers, e.end, sync.Members) < sync.Quorum {
			return false, closedMessage(e.end, sync)
		}
	}
	return true, ""
}

// have says how many of these have flushed everything up to a position.
func have(followers []replicate.Follower, position uint64, of []string) (count int) {
	for _, f := range followers {
		if uint64(f.Flushed) >= position && slices.Contains(of, f.Pod) {
			count++
		}
	}
	return count
}

func closedMessage(end uint64, sync elect.Sync) string {
	return fmt.Sprintf("PostgreSQL has recovered from a crash, and refuses clients until %d of %s have all its WAL up to %s: what they read until then "+
		"could be lost in a failover. If these replicas don't come back, set spec.synchronous.durability to Preferred, or remove spec.synchronous.",
		sync.Quorum, strings.Join(sync.Members, ", "), postgres.LSN(end))
}

// admit lets clients in. If that fails, it is tried again.
func (s *server) admit(ctx context.Context) {
	s.conf.replication.Closed = false
	if err := s.conf.reloadReplication(ctx, s.postmaster); err != nil {
		s.conf.replication.Closed = true
		s.Log.Warn("client connections can't be enabled yet", "error", err)
		return
	}
	s.entrance.stop()
	s.entrance.safe = nil
	s.set(func(status *agentapi.Status) { status.Closed = "" })
	s.publisher.Set(true)
	s.publisher.Role(rolePrimary, false)
	s.Log.Info("replicas have what was recovered; clients may connect")
}
