package supervise

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	replicaTick  = time.Second
	slotInterval = 15 * time.Second
	syncSettle   = time.Second
	// unseenTime is for how long the server may not say who follows it until the status tells.
	unseenTime    = 5 * time.Second
	unseenMessage = "The server doesn't say who follows it, so those that may take over stay the same: "
)

// replicas are what a primary knows of its replicas and tells them. Any goroutine may use it.
type replicas struct {
	*instance
	copy     *adopted
	election *election
	latest   *latest
	archiver *archive.Archiver
	slots    *slots
	due      due
}

// run tells the election, and the replicas, what the primary knows of them, until ctx ends.
func (r *replicas) run(ctx context.Context) {
	tick := time.NewTicker(replicaTick)
	defer tick.Stop()
	var kept time.Time
	seen := time.Now()
	for {
		if r.election.Holds() {
			if (time.Since(kept) >= slotInterval || r.slots.unknown()) && r.slots.keep(ctx, nil) == nil {
				kept = time.Now()
			}
			_, err := r.tell(ctx)
			seen = r.show(ctx, seen, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// show publishes how a look at the replicas ended, and returns when the last one succeeded.
func (r *replicas) show(ctx context.Context, seen time.Time, err error) time.Time {
	if err == nil {
		r.clearMessage(unseenMessage)
		return time.Now()
	}
	if ctx.Err() != nil {
		return seen
	}
	r.Log.Warn("the replicas can't be inspected", "error", err)
	if time.Since(seen) >= unseenTime {
		r.set(func(status *agentapi.Status) {
			if status.Message == "" || strings.HasPrefix(status.Message, unseenMessage) {
				status.Message = unseenMessage + sentence(err)
			}
		})
	}
	return seen
}

// proveTime is how long a commit is looked for that waits. It is tried again with the next look at the replicas.
const proveTime = 500 * time.Millisecond

// prove shows that commits wait for replicas, where the server was told that they shall. It comes before the position is asked for
// from which on they do.
func (r *replicas) prove(ctx context.Context) {
	sync, unproven := r.election.unproven()
	if !unproven {
		return
	}
	limited, cancel := context.WithTimeout(ctx, proveTime)
	defer cancel()
	if err := r.awaitWaitingCommits(limited); err != nil {
		if ctx.Err() == nil {
			r.Log.Info("commits don't wait for replicas yet", "synchronous_standby_names", synchronousNames(sync), "reason", err)
		}
		return
	}
	r.election.proven(sync)
}

// tell tells the election who follows, and has an answer ready for those. It says how many are connected. Where the server doesn't say
// who follows, the election is told nothing: nobody is away because of that.
func (r *replicas) tell(ctx context.Context) (int, error) {
	r.prove(ctx)
	left, known := r.maintainer(r.copy).Left() // before the position: what is done is before that
	var written replicate.Written
	var connected []replicate.Follower
	err := r.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		written, connected, err = replicate.Followers(ctx, conn)
		return err
	})
	if err != nil {
		return 0, err
	}
	followers, due := map[string]elect.Follower{}, r.due.note(time.Now(), uint64(written.LSN))
	var streaming, near []string
	for _, f := range connected {
		lag := lacks(uint64(f.Flushed), due)
		followers[f.Pod] = elect.Follower{Streaming: f.Streaming(), Flushed: uint64(f.Flushed), Replayed: uint64(f.Replayed), Lag: lag}
		if delayed(r.latest.config(), f.Pod) {
			continue
		}
		if f.Streaming() {
			streaming = append(streaming, f.Pod)
		}
		if f.Streaming() && lag <= electorate(r.latest.config()).MaxLag {
			near = append(near, f.Pod)
		}
	}
	r.slots.follow(streaming, near)
	r.poolers.Replicas(readable(undelayed(r.latest.config()), written.LSN, connected))
	r.election.written(written)
	r.election.settle(uint64(written.LSN))
	answer := agentapi.FollowAnswer{LSN: uint64(written.LSN), DueLSN: due, Timeline: r.Status().Timeline, Slots: r.slots.positions()}
	if known {
		answer.Maintenance = &agentapi.MaintenanceLeft{Work: left}
	}
	if answer.Archives = r.latest.config().Archive != nil; answer.Archives {
		answer.ArchivedWAL, err = r.archiver.Archived() // who follows is known all the same
	}
	r.election.Lead(followers, answer)
	return len(connected), err
}

// readable are the replicas of this cluster that stream from its primary, with what they have yet to replay.
func readable(peers []string, written postgres.LSN, connected []replicate.Follower) []routing.Replica {
	var all []routing.Replica
	for _, f := range connected {
		if f.Streaming() && f.Address != "" && slices.Contains(peers, f.Pod) {
			lag := int64(written) - int64(min(f.Replayed, written))
			all = append(all, routing.Replica{PoolerReplica: agentapi.PoolerReplica{Pod: f.Pod, Address: f.Address}, Lag: lag})
		}
	}
	return all
}

// slots keep the WAL that the other instances may need. Any goroutine may use them.
type slots struct {
	*instance
	latest *latest

	mu   sync.Mutex
	kept map[string]uint64
	// streaming are the replicas that stream from this primary, and near those of them that may become members.
	streaming, near []string
}

// keep the slots of the other instances where they are, or at these positions.
func (s *slots) keep(ctx context.Context, positions map[string]uint64) error {
	peers := s.keepsFor(s.latest.config(), positions != nil)
	var kept map[string]uint64
	err := s.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		kept, err = replicate.KeepSlots(ctx, conn, peers, positions)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("the slots of the other instances are not as requested yet", "error", err)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = kept
	return nil
}

func (s *slots) positions() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}
