package supervise

import (
	"context"
	"fmt"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/elect"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// rejoin is what is remembered of how a copy is made fit to follow. What doesn't help is followed by what costs more.
type rejoin struct {
	next    method
	tried   method    // with success, as far as that could be seen
	clones  int       // since it last followed for a while
	cloned  time.Time // when the last one ended
	message string    // of the last failure
}

// method to make a copy fit.
type method int

const (
	asItIs method = iota
	byCut
	byRewind
	byClone
)

func (m method) String() string {
	return map[method]string{asItIs: "AsItIs", byCut: "Rewind", byRewind: "Rewind", byClone: "Clone"}[m]
}

// failed: the copy could not follow as it was, or as it was made.
func (j *rejoin) failed(complaint string) {
	j.next, j.message = min(max(j.next, j.tried, byCut)+1, byClone), complaint
}

// useless: the copy can't be started as a replica, whatever is done with it.
func (j *rejoin) useless(complaint string) { j.next, j.message = byClone, complaint }

// ended notes what came of a method, and what is to be tried next.
func (j *rejoin) ended(m method, err error, now time.Time) {
	if m == byClone {
		j.clones++
		j.cloned = now
	}
	switch {
	case err == nil:
		j.next, j.tried, j.message = asItIs, m, ""
	case m == byCut:
		j.next, j.message = byRewind, sentence(err)
	case m == byRewind:
		j.next, j.message = byClone, sentence(err)
	default:
		j.message = sentence(err)
	}
}

// pause that is left before the next clone: a primary must not be kept busy with clones that fail.
func (j *rejoin) pause(now time.Time) time.Duration {
	if j.clones == 0 {
		return 0
	}
	return min(5*time.Second<<min(j.clones-1, 10), 10*time.Minute) - now.Sub(j.cloned)
}

// repair makes the copy on the volume fit to follow a primary. Only the loop uses it, while no server runs.
type repair struct {
	*instance
	rejoin
	election *election
	latest   *latest
	disk     *diskSpace
	release  func() // gives the adopted copy back: nobody else may hold its lock
}

// method finds out what makes the copy on the volume fit to follow.
func (r *repair) method(ctx context.Context, wanted string) (generation.Generation, method) {
	g, err := r.Volume.Resolve(wanted)
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
		return g, max(r.next, byRewind)
	}
	return g, r.next
}

// campaignsAsIs says whether there is a whole copy that a replica can be started on, though it was found unfit to follow whoever was primary: it may have
// every commit all the same.
func (r *repair) campaignsAsIs(ctx context.Context, wanted string) bool {
	g, err := r.Volume.Resolve(wanted)
	if err != nil || r.Volume.Rewinding(g.ID) {
		return false
	}
	_, _, err = r.inspect(ctx, g)
	return err == nil
}

// do rewinds the copy, or makes a new one, from the primary that answers.
func (r *repair) do(ctx context.Context, want elect.Want, config agentapi.Config, g generation.Generation, m method) error {
	r.election.report(func(server *elect.Server) { *server = elect.Server{Mode: elect.Down} })
	progress := &agentapi.RejoinStatus{
		Method: m.String(), Source: want.Leader.Name, StartedAt: time.Now().UTC().Truncate(time.Second),
		Attempts: r.clones + 1, Message: r.message,
	}
	r.set(func(status *agentapi.Status) {
		status.State, status.Role, status.Message, status.Rejoin = agentapi.StateStarting, "", "", progress
	})
	r.Log.Info("rewinding or cloning the copy, so that it can follow", "method", m.String(), "from", want.Leader.Name, "attempt", progress.Attempts)
	defer r.waiting()()
	work, done := r.whileWanted(ctx, want)
	err := r.by(work, want, config, g, m)
	unwanted := work.Err() != nil
	done()
	switch {
	case ctx.Err() != nil && err != nil:
		return stopped{}
	case unwanted && err != nil:
		return errChanged
	}
	r.ended(m, err, time.Now())
	if err != nil {
		r.reinits.tried(g.ID, err)
		r.Log.Error("the copy could not be rewound or cloned", "method", m.String(), "attempt", progress.Attempts, "error", err)
	}
	return errRejoin
}

// by does the work of one method.
func (r *repair) by(ctx context.Context, want elect.Want, config agentapi.Config, g generation.Generation, m method) error {
	replica, err := r.prepare(ctx, config, g)
	if err != nil {
		return err
	}
	source := *r.upstream(config, want.Leader)
	if m != byClone {
		r.disk.giveReserve() // what is begun and finds no space leaves a copy that has to be cloned
	}
	if m == byCut {
		r.release()
		return replica.Cut(ctx, source, g)
	}
	if m == byRewind {
		r.release()
		return replica.Rewind(ctx, source, g)
	}
	began := time.Now()
	leader, _ := r.election.Leader() // before anything is copied: what was done by then is in the clone
	made, err := replica.Clone(ctx, source, replicate.Wanted{
		DataGeneration: config.DataGeneration, MajorVersion: config.MajorVersion, Replaces: g.ID, Released: config.Released,
		Kept: r.reinits.wants(g.ID) || r.latest.keepsCopies(), KeptOld: r.latest.keepsCopies(),
	}, r.publish)
	if err != nil {
		return err
	}
	r.tellClone(made, leader)
	r.release()
	r.Log.Info("cloned the data", "from", source.Pod, "copy", made.ID, "took", time.Since(began).Round(time.Millisecond).String())
	return r.Volume.Adopt(made.ID)
}

// tellClone notes in a clone what its primary had yet to do, before a server runs on it: it may have to take over before it follows.
func (r *repair) tellClone(made generation.Generation, leader agentapi.FollowAnswer) {
	if leader.Maintenance == nil {
		return
	}
	if err := r.maintainer(&adopted{generation: made}).Told(leader.Maintenance.Work, true); err != nil {
		r.Log.Warn("maintenance that the primary has yet to do can't be recorded in the clone", "copy", made.ID, "error", err)
	}
}

// publish how far a clone is.
func (r *repair) publish(done, total int64) {
	r.set(func(status *agentapi.Status) {
		if status.Rejoin != nil {
			progress := *status.Rejoin
			progress.BytesDone, progress.BytesTotal = done, total
			status.Rejoin = &progress
		}
	})
}

// prepare is what a replica is rewound or cloned with.
func (r *repair) prepare(ctx context.Context, config agentapi.Config, g generation.Generation) (replicate.Instance, error) {
	binDir, err := postgres.BinDir(ctx, postgres.Exec, config.MajorVersion)
	if err != nil {
		return replicate.Instance{}, err
	}
	paths := r.configPaths(g.ID)
	_, err = copyCertificates(r.Paths, paths, time.Now())
	return r.replicateInstance(config.MajorVersion, binDir, paths), err
}

// whileWanted is a context that ends when another leader is wanted, or none.
func (r *repair) whileWanted(ctx context.Context, want elect.Want) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-work.Done():
				return
			case <-r.election.Changed():
				if now := r.election.Want(); now.Role != elect.Follow || now.Leader != want.Leader {
					cancel()
					return
				}
			}
		}
	}()
	return work, cancel
}

// cloneIn is how long to wait before another clone, and why; 0: not at all.
func (r *repair) cloneIn(m method, leader string) (time.Duration, string) {
	pause := r.pause(time.Now())
	if m != byClone || pause <= 0 {
		return 0, ""
	}
	return pause, fmt.Sprintf("The last clone from %s failed. Next attempt in %v. %s", leader, pause.Round(time.Second), r.message)
}

func (o *Options) replicateInstance(major int, binDir string, paths settings.Paths) replicate.Instance {
	return replicate.Instance{Pod: o.Pod, Volume: o.Volume, BinDir: binDir, Major: major, Paths: paths, Log: o.Log, Now: time.Now}
}

func (o *Options) upstream(config agentapi.Config, leader elect.Member) *settings.Upstream {
	upstream := &settings.Upstream{Pod: leader.Name, Host: leader.Name + "." + config.PodDomain, Address: leader.Address}
	if o.PeerPort != nil {
		upstream.Port = o.PeerPort(leader.Name)
	}
	return upstream
}
