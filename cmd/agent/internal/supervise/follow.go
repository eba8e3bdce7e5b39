package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// rejoin is what is remembered of how a copy is made fit to follow. What doesn't help is followed by what costs more.
type rejoin struct {
	next    way
	tried   way       // with success, as far as that could be seen
	clones  int       // since it last followed for a while
	cloned  time.Time // when the last one ended
	message string    // of the last failure
}

// way to make a copy fit.
type way int

const (
	asItIs way = iota
	byRewind
	byClone
)

func (w way) String() string {
	return map[way]string{asItIs: "AsItIs", byRewind: "Rewind", byClone: "Clone"}[w]
}

// failed: the copy could not follow as it was, or as it was made.
func (j *rejoin) failed(complaint string) {
	j.next, j.message = min(max(j.next, j.tried)+1, byClone), complaint
}

// ended notes what came of a way, and what is to be tried next.
func (j *rejoin) ended(method way, err error, now time.Time) {
	if method == byClone {
		j.clones++
		j.cloned = now
	}
	switch {
	case err == nil:
		j.next, j.tried, j.message = asItIs, method, ""
	case method == byRewind:
		j.next, j.message = byClone, sentence(err)
	default:
		j.message = sentence(err)
	}
}

// pause that is left before the next clone: a primary must not be kept busy with clones that lead nowhere.
func (j *rejoin) pause(now time.Time) time.Duration {
	if j.clones == 0 {
		return 0
	}
	return min(5*time.Second<<min(j.clones-1, 10), 10*time.Minute) - now.Sub(j.cloned)
}

// follow runs the server as a replica, on a copy that is made fit for that first.
func (r *runner) follow(ctx context.Context, want elect.Want) error {
	g, method := r.way(ctx)
	if method == asItIs {
		if err := r.adopt(ctx); err != nil {
			return r.unable(ctx, err)
		}
		r.beginFollowing()
		r.followWith(want)
		return r.live(ctx, replicaMode)
	}
	if want.Leader.Name == "" {
		return r.rest(ctx, "This instance waits for a primary, to follow it. "+want.Why)
	}
	if _, answers := r.member.Leader(); !answers {
		return r.restFor(ctx, leaderPoll, fmt.Sprintf("This instance waits for %s to be up as the primary, to follow it.", want.Leader.Name))
	}
	if pause := r.rejoin.pause(time.Now()); method == byClone && pause > 0 {
		return r.restFor(ctx, pause, fmt.Sprintf("The last clone from %s led nowhere; another one is made in %v. %s",
			want.Leader.Name, pause.Round(time.Second), r.rejoin.message))
	}
	return r.repair(ctx, want, g, method)
}

// beginFollowing forgets what was found out about the life before.
func (r *runner) beginFollowing() {
	r.endReading()
	r.facts.mu.Lock()
	defer r.facts.mu.Unlock()
	r.facts.stuck, r.facts.followed, r.facts.remedy = time.Time{}, time.Time{}, asItIs
	r.facts.instance = r.instanceOf(r.adopted.binDir, r.adopted.paths)
}

// way finds out what makes the copy on the volume fit to follow.
func (r *runner) way(ctx context.Context) (generation.Generation, way) {
	g, err := r.Volume.Resolve(r.wanted)
	if err != nil {
		return g, byClone
	}
	if r.Volume.Rewinding(g.ID) {
		r.Log.Warn("a rewind of the copy was interrupted, so it is not started", "copy", g.ID)
		return g, byClone
	}
	if _, _, err := r.inspect(ctx, g); err != nil {
		r.Log.Error("the copy can't be started", "copy", g.ID, "error", err)
		return g, byClone
	}
	standby, err := settings.IsStandby(r.Volume.PGData(g.ID))
	if err != nil {
		return g, byClone
	}
	if !standby { // its last server was a primary
		return g, max(r.rejoin.next, byRewind)
	}
	return g, r.rejoin.next
}

// repair rewinds the copy, or makes a new one, from the primary that answers.
func (r *runner) repair(ctx context.Context, want elect.Want, g generation.Generation, method way) error {
	r.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Down} })
	progress := &agentapi.RejoinStatus{
		Method: method.String(), Source: want.Leader.Name, StartedAt: time.Now().UTC().Truncate(time.Second),
		Attempts: r.rejoin.clones + 1, Message: r.rejoin.message,
	}
	r.set(func(status *agentapi.Status) {
		status.State, status.Role, status.Message, status.Rejoin = agentapi.StateStarting, "", "", progress
	})
	r.Log.Info("making the data fit to follow", "method", method.String(), "from", want.Leader.Name, "attempt", progress.Attempts)
	defer r.waiting()()
	work, done := r.whileWanted(ctx, want)
	err := r.repairBy(work, want, g, method)
	unwanted := work.Err() != nil
	done()
	switch {
	case ctx.Err() != nil && err != nil:
		return stopped{}
	case unwanted && err != nil:
		return errChanged
	}
	r.rejoin.ended(method, err, time.Now())
	if err != nil {
		r.Log.Error("the data could not be made fit to follow", "method", method.String(), "attempt", progress.Attempts, "error", err)
	}
	return errRejoin
}

// repairBy does the work of one way.
func (r *runner) repairBy(ctx context.Context, want elect.Want, g generation.Generation, method way) error {
	instance, err := r.instance(ctx, g)
	if err != nil {
		return err
	}
	source := *r.upstream(want.Leader)
	if method == byRewind {
		r.release() // nobody else may hold the lock
		return instance.Rewind(ctx, source, g)
	}
	began := time.Now()
	made, err := instance.Clone(ctx, source, replicate.Wanted{
		DataGeneration: r.wanted, MajorVersion: r.inputs.config.MajorVersion, Replaces: g.ID,
		Released: r.inputs.config.Released,
	}, func(done, total int64) {
		r.set(func(status *agentapi.Status) {
			if status.Rejoin != nil {
				progress := *status.Rejoin
				progress.BytesDone, progress.BytesTotal = done, total
				status.Rejoin = &progress
			}
		})
	})
	if err != nil {
		return err
	}
	r.release()
	r.Log.Info("cloned the data", "from", source.Pod, "copy", made.ID, "took", time.Since(began).Round(time.Millisecond).String())
	return r.Volume.Adopt(made.ID)
}

func (r *runner) instance(ctx context.Context, g generation.Generation) (replicate.Instance, error) {
	binDir, err := postgres.BinDir(ctx, postgres.Exec, r.inputs.config.MajorVersion)
	if err != nil {
		return replicate.Instance{}, err
	}
	paths := r.configPaths(g.ID)
	return r.instanceOf(binDir, paths), copyCertificates(r.Paths, paths)
}

func (r *runner) instanceOf(binDir string, paths settings.Paths) replicate.Instance {
	return replicate.Instance{Pod: r.Pod, Volume: r.Volume, BinDir: binDir, Paths: paths, Log: r.Log, Now: time.Now}
}

// whileWanted is a context that ends when another leader is wanted, or none.
func (r *runner) whileWanted(ctx context.Context, want elect.Want) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-work.Done():
				return
			case <-r.member.Changed():
				if now := r.member.Want(); now.Role != elect.Follow || now.Leader != want.Leader {
					cancel()
					return
				}
			}
		}
	}()
	return work, cancel
}

// restFor rests for a while.
func (r *runner) restFor(ctx context.Context, d time.Duration, why string) error {
	limited, cancel := context.WithTimeout(ctx, max(d, time.Millisecond))
	defer cancel()
	if err := r.rest(limited, why); errors.Is(err, errChanged) || ctx.Err() != nil {
		return err
	}
	return errChanged
}

// followWith makes the replication settings those of a replica.
func (r *runner) followWith(want elect.Want) {
	r.told(want.Sync)
	if !r.reads(want) {
		r.endReading()
	}
	before := r.replication.Upstream
	r.replication = settings.Replication{
		Pod: r.Pod, Slot: replicate.SlotName(r.Pod), Synchronous: synchronousNames(want.Sync), VolumeBytes: volumeBytes(string(r.Volume)),
		ReadOnly: r.room.full(), FromArchive: r.reads(want),
	}
	if leader := want.Leader; leader.Name != "" && leader.Address != "" {
		before = r.upstream(leader)
	}
	r.replication.Upstream = before // while there is nobody to follow, nothing is changed
}

func (r *runner) upstream(leader elect.Member) *settings.Upstream {
	upstream := &settings.Upstream{Pod: leader.Name, Host: leader.Name + "." + r.config().PodDomain, Address: leader.Address}
	if r.PeerPort != nil {
		upstream.Port = r.PeerPort(leader.Name)
	}
	return upstream
}

// primaryReplication is that of a primary whose commits wait for others as the election says.
func (r *runner) primaryReplication(want elect.Want) settings.Replication {
	r.told(want.Sync)
	return settings.Replication{Pod: r.Pod, Synchronous: synchronousNames(want.Sync), VolumeBytes: volumeBytes(string(r.Volume)), ReadOnly: r.room.full()}
}

// followOther makes a running replica follow who is to be followed now.
func (r *runner) followOther(server *postmaster.Server, want elect.Want) error {
	before := r.replication
	r.followWith(want)
	if sameReplication(before, r.replication) {
		return nil
	}
	files, err := settings.Render(r.effect, r.adopted.generation.MajorVersion, r.adopted.paths, r.replication)
	if err == nil {
		if err = files.Write(r.adopted.paths); err == nil {
			r.files = files
			err = server.Reload()
		}
	}
	if err != nil {
		return fmt.Errorf("follow %s: %w", want.Leader.Name, err)
	}
	r.Log.Info("the replica follows", "leader", want.Leader.Name, "term", want.Term)
	return nil
}

func sameReplication(a, b settings.Replication) bool {
	if (a.Upstream == nil) != (b.Upstream == nil) || a.Upstream != nil && *a.Upstream != *b.Upstream {
		return false
	}
	a.Upstream, b.Upstream, a.VolumeBytes, b.VolumeBytes = nil, nil, 0, 0
	return a == b
}

// leaderPoll is how soon to look again whether the primary is up.
const leaderPoll = 200 * time.Millisecond

// stuckTime is how long a replica may not follow a primary that answers.
const stuckTime = 20 * time.Second

// checkUp ends a replica that can't follow.
func (r *runner) checkUp(ctx context.Context, server *postmaster.Server, as mode) error {
	if as != replicaMode {
		return nil
	}
	r.keepReading(server)
	r.facts.mu.Lock()
	stuck, followed, remedy := r.facts.stuck, r.facts.followed, r.facts.remedy
	r.facts.mu.Unlock()
	if !followed.IsZero() && time.Since(followed) > longLife {
		r.rejoin = rejoin{}
	}
	if remedy == asItIs && (stuck.IsZero() || time.Since(stuck) < stuckTime) {
		return nil
	}
	r.Log.Warn("the replica can't follow the primary, though that answers", "remedy", remedy.String(), "complaint", server.Complaint())
	r.rejoin.failed(server.Complaint())
	r.rejoin.next = max(r.rejoin.next, remedy)
	if err := r.end(server, as); err != nil {
		r.Log.Warn("the replica did not shut down cleanly", "error", err)
	}
	if ctx.Err() != nil {
		return stopped{}
	}
	return errRejoin
}

// isStandby says whether the adopted copy was a replica's.
func (r *runner) isStandby() bool {
	standby, err := settings.IsStandby(r.adopted.pgdata)
	return standby || err != nil
}

// synchronousNames is a value of synchronous_standby_names.
func synchronousNames(s elect.Sync) string {
	if s.Quorum == 0 || len(s.Members) == 0 {
		return ""
	}
	names := ""
	for i, name := range s.Members {
		if i > 0 {
			names += ","
		}
		names += postgres.QuoteIdentifier(name)
	}
	return fmt.Sprintf("ANY %d (%s)", s.Quorum, names)
}
