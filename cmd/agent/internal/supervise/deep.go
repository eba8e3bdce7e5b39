package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/deepcheck"
	"howdah.dev/howdah/cmd/agent/internal/findings"
	"howdah.dev/howdah/cmd/agent/internal/replicate"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

const (
	deepInterval = 10 * time.Minute // between two turns, half as much to half as much more
	deepRetry    = time.Minute      // after a try that failed, until it counts
	deepFailures = 3                // in a row that count
	turnsInRest  = 144              // between two rounds through all indexes: a day
	indexTimeout = 10 * time.Minute // that the check of a large index may take
	busyLooks    = 5                // in a row, a second apart, after which such a check leaves a busy instance alone
	fewSessions  = 4                // that are active don't make an instance busy, however few cores it has
	commitTime   = 15 * time.Second // that a commit through the Service may take
	placeFile    = "checks.json"    // on the volume
)

// deepChecks are those that an agent does every few minutes beside its server, one after the other, on what it was given when it started.
type deepChecks struct {
	*shared
	copy    *adopted
	primary bool

	walker *deepcheck.Walker
	// long ends with the check of a large index, which has the walker until then; nil: there is none.
	long chan error
	// place that the walker had when it was last free.
	place deepcheck.Place
	// busy looks in a row. Only the check of a large index counts them.
	busy int

	told          findings.Told
	done          map[string]agentapi.Check
	seen          findings.Deep
	name, service streak
	committed     replicate.Committed
}

// streak of failures.
type streak struct {
	failed int
	last   string
}

func (s *streak) add(err error) {
	if err == nil {
		*s = streak{}
		return
	}
	s.failed, s.last = s.failed+1, strings.TrimSuffix(err.Error(), ".")
}

// found is the last failure, if there were enough of them.
func (s *streak) found() string {
	if s.failed < deepFailures {
		return ""
	}
	return s.last
}

func (s *streak) waits() bool { return s.failed > 0 && s.failed < deepFailures }

func newDeepChecks(s *shared, copy *adopted, primary bool) *deepChecks {
	d := &deepChecks{shared: s, copy: copy, primary: primary, done: map[string]agentapi.Check{}}
	d.walker = &deepcheck.Walker{
		Server: s.server, File: filepath.Join(string(s.Volume), placeFile), Copy: copy.generation.ID, Primary: primary,
		Limits: deepcheck.ReplicaLimits, Disturbs: d.disturbs, Now: time.Now, Log: s.Log,
	}
	if primary {
		d.walker.Limits = deepcheck.PrimaryLimits
	}
	d.seen = findings.Deep{Instance: s.Pod, Replica: !primary}
	return d
}

// run checks now and then until ctx ends: from then on nothing is known.
func (d *deepChecks) run(ctx context.Context) {
	defer d.set(func(status *agentapi.Status) { status.Checks = nil })
	defer func() {
		if d.long != nil {
			err := <-d.long // before another one has its file
			d.Log.Debug("the check of a large index has ended", "error", err)
		}
	}()
	interval := cmp.Or(d.DeepChecks, deepInterval)
	for {
		pause := interval/2 + rand.N(interval) //nolint:gosec // agents need not be unpredictable, only apart
		if d.name.waits() || d.service.waits() {
			pause = min(pause, deepRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if d.latest.config().DeepChecks.Suspended() {
			d.set(func(status *agentapi.Status) { status.Checks = nil })
		}
		if why := d.notNow(ctx); why != "" {
			d.Log.Debug("no deep checks now", "reason", why)
			continue
		}
		d.turn(ctx)
	}
}

// underWay says whether data is copied, whether anybody waits for the session with that process ID, and how many other sessions of clients are
// active. The process that replays WAL has no lock that pg_blocking_pids knows of.
const underWay = `SELECT EXISTS (SELECT FROM pg_stat_progress_basebackup) OR EXISTS (SELECT FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND usename = ANY ($1)),
	EXISTS (SELECT FROM pg_locks WHERE NOT granted AND $2::int = ANY (pg_blocking_pids(pid)))
		OR EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND (wait_event_type IN ('Lock', 'BufferPin') OR wait_event LIKE 'RecoveryConflict%')),
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'active' AND pid NOT IN (pg_backend_pid(), $2::int))`

// notNow says why nothing is checked now; empty: there is no reason.
func (d *deepChecks) notNow(ctx context.Context) string {
	why, _, _ := d.hindered(ctx, 0)
	return why
}

// disturbs says why the check of a large index by that session must end. It is asked every second.
func (d *deepChecks) disturbs(ctx context.Context, pid uint32) string {
	why, waits, active := d.hindered(ctx, pid)
	switch {
	case why != "":
		return why
	case waits:
		return "somebody waited for it"
	case active <= d.manySessions():
		d.busy = 0
		return ""
	}
	if d.busy++; d.busy < busyLooks {
		return ""
	}
	d.busy = 0
	return fmt.Sprintf("%d sessions were active", active)
}

// manySessions is how many sessions may be active beside the check of a large index.
func (d *deepChecks) manySessions() int64 {
	return max(fewSessions, d.latest.config().CPUMillis/1000)
}

// hindered says why nothing is checked now, whether somebody waits for a session, and how many others are active.
func (d *deepChecks) hindered(ctx context.Context, pid uint32) (why string, waits bool, active int64) {
	if why := d.excused(); why != "" {
		return why, false, 0
	}
	copying := false
	err := d.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		roles := []string{postgres.RoleBackup, postgres.RoleReplication, postgres.RoleUpgrade}
		return conn.QueryRow(ctx, underWay, roles, int32(pid)).Scan(&copying, &waits, &active)
	})
	switch {
	case err != nil:
		return "PostgreSQL does not respond", false, 0
	case copying:
		return "a backup or a clone is under way", false, 0
	}
	return "", waits, active
}

// excused says why nothing is checked now, as far as PostgreSQL need not be asked; empty: there is no reason.
func (d *deepChecks) excused() string {
	config, status := d.latest.config(), d.Status()
	switch {
	case config.DeepChecks.Suspended():
		return "spec.deepChecks.suspend is true"
	case d.latest.repairsPaused() != "":
		return "repairs are paused"
	case config.FailoverDrill != "":
		return "a failover drill is under way"
	case config.ReplicasLast:
		return "the instances are about to be stopped"
	case d.reinits.running():
		return "the instance is being cloned"
	case len(status.Maintenance) > 0:
		return "maintenance after a restore or an upgrade is under way"
	case d.disk.scarce():
		return "the volume has little space"
	case status.Disk != nil && !status.Disk.StalledSince.IsZero():
		return "the disk does not respond"
	}
	return ""
}

// turn does one check after the other, and publishes what is found.
func (d *deepChecks) turn(ctx context.Context) {
	d.seen.At = time.Now()
	d.seen.Certificate = agentapi.Validity{}
	if shown, err := settings.ReadTLS(d.PeerTLSDir); err == nil {
		d.seen.Certificate = agentapi.ValidityOf(shown.Certificate, shown.CA, d.seen.At)
	}
	d.checkClock(ctx)
	d.checkService(ctx)
	d.checkChecksums(ctx)
	d.checkIndexes(ctx)
	if ctx.Err() != nil {
		return
	}
	place := d.place
	d.seen.Index, d.seen.Database, d.seen.Damage, d.seen.Certain, d.seen.DamagedIndexes = "", "", "", false, len(place.Damaged)
	if len(place.Damaged) > 0 {
		first := place.Damaged[max(0, slices.IndexFunc(place.Damaged, func(one deepcheck.Damage) bool { return one.Certain }))]
		d.seen.Index, d.seen.Database, d.seen.Damage, d.seen.Certain = first.Index, first.Database, first.Message, first.Certain
	}
	d.seen.Unchecked, d.seen.TooLong, d.seen.IndexTimeout = place.Last.Unchecked(), place.Last.TooLong, d.walker.Limits.Long
	checks := &agentapi.Checks{
		Found: d.told.Renew(findings.JudgeDeep(d.seen), d.seen.At), Damaged: d.seen.Damaged(), DamageCertain: d.seen.DamageCertain(), Done: map[string]agentapi.Check{},
		IndexesChecked: place.Now.Checked, IndexesSkipped: place.Now.Skipped, IndexesWaiting: int64(len(place.Large)), ClockAheadSeconds: d.seen.ClockAhead.Seconds(),
		RoundEnded: place.Last.Ended, RoundWhole: place.Last.Whole(), RoundSkippedIndexes: place.Last.Skipped, RoundMissedDatabases: place.Last.Databases,
	}
	for name, check := range d.done {
		checks.Done[name] = check
	}
	d.set(func(status *agentapi.Status) { status.Checks = checks })
}

// note how a check ended. One that the end of the server interrupts says nothing.
func (d *deepChecks) note(ctx context.Context, name string, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.Log.Warn("a deep check failed", "check", name, "error", err)
	}
	d.done[name] = agentapi.Check{Time: time.Now().UTC().Truncate(time.Second), Failed: err != nil}
}

// clock of the API server.
type clock interface {
	Clock(ctx context.Context) (ahead time.Duration, err error)
}

func (d *deepChecks) checkClock(ctx context.Context) {
	server, ok := d.Kubernetes.(clock)
	if !ok {
		return
	}
	asking, cancel := context.WithTimeout(ctx, factsTime)
	defer cancel()
	ahead, err := server.Clock(asking)
	if err == nil {
		d.seen.ClockAhead = ahead
	}
	d.note(ctx, agentapi.CheckClock, err)
}

// upstreamOf the Service -rw, as clients reach it; nil: outside Kubernetes there is none.
func (d *deepChecks) upstreamOf(config agentapi.Config) *settings.Upstream {
	if d.Service != nil {
		return d.Service(config)
	}
	if d.Kubernetes == nil {
		return nil
	}
	host := config.Cluster + "-rw." + config.Namespace + ".svc"
	return &settings.Upstream{Pod: host, Host: host, Address: host}
}

// checkService resolves the name of the Service, and has a replica commit through it. While no primary answers the agents, clients can't
// commit either, and the cluster says so.
func (d *deepChecks) checkService(ctx context.Context) {
	service := d.upstreamOf(d.latest.config())
	if service == nil {
		return
	}
	d.seen.Service = service.Host
	asking, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	_, err := net.DefaultResolver.LookupHost(asking, service.Address)
	if ctx.Err() != nil {
		return
	}
	d.name.add(unresolved(err))
	d.note(ctx, agentapi.CheckDNS, err)
	d.seen.NameError = d.name.found()
	if _, answers := d.election.Leader(); err != nil || d.primary || !answers {
		return
	}
	err = d.replicateInstance(d.copy.generation.MajorVersion, d.copy.binDir, d.copy.paths).Commit(asking, *service, &d.committed, max(0, d.latest.config().Instances-2))
	if _, answers := d.election.Leader(); ctx.Err() != nil || err != nil && !answers {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("it takes longer than " + commitTime.String())
	}
	d.service.add(err)
	d.note(ctx, agentapi.CheckService, err)
	d.seen.ServiceError = d.service.found()
}

// unresolved is what a resolver says, without the server that it has asked.
func unresolved(err error) error {
	fault := &net.DNSError{}
	if errors.As(err, &fault) {
		return errors.New(fault.Err)
	}
	return err
}

// checkChecksums asks a replica; a primary is asked every minute.
func (d *deepChecks) checkChecksums(ctx context.Context) {
	if d.primary {
		return
	}
	err := d.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(sum(checksum_failures), 0)::int8 FROM pg_stat_database").Scan(&d.seen.ChecksumFailures)
	})
	d.note(ctx, agentapi.CheckChecksums, err)
}

// checkIndexes takes a turn. A large index is checked beside the other checks, which go on meanwhile.
func (d *deepChecks) checkIndexes(ctx context.Context) {
	if d.long != nil {
		select {
		case err := <-d.long:
			d.long = nil
			d.note(ctx, agentapi.CheckIndexes, err)
		default:
			return
		}
	}
	d.adjust(d.latest.config().DeepChecks)
	d.note(ctx, agentapi.CheckIndexes, d.walker.Turn(ctx))
	d.place = d.walker.Place()
	if ctx.Err() != nil || !d.walker.HasLarge() {
		return
	}
	done := make(chan error, 1)
	d.long = done
	go func() { done <- d.walker.Long(ctx) }()
}

// adjust the walker to the settings that people have chosen.
func (d *deepChecks) adjust(to *agentapi.DeepChecks) {
	d.walker.Rest, d.walker.Limits.Long = turnsInRest*cmp.Or(d.DeepChecks, deepInterval), indexTimeout
	if to == nil {
		return
	}
	d.walker.Rest = cmp.Or(time.Duration(to.IntervalSeconds)*time.Second, d.walker.Rest)
	d.walker.Limits.Long = cmp.Or(time.Duration(to.IndexTimeoutSeconds)*time.Second, d.walker.Limits.Long)
}
