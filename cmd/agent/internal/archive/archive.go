// Package archive pushes the WAL of the running server into the archive, and tells how that goes.
package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// Target is where WAL goes and whose it is.
type Target struct {
	Store objstore.Store
	// Claim is the lineage that the server writes to.
	Claim layout.Lineage
	// Identity is that of the repository which was found there first; empty: it isn't known. Nil: it isn't looked at.
	Identity func() (string, error)
	// Writer names this pod for a person.
	Writer string
	// Err says why there is no Store; no file is archived then.
	Err error
	// Memory bounds the WAL that is on its way at a time, in bytes of segments; one in any case.
	Memory int64
	// Timeout is archive_timeout; 0: segments are ended only when they are full.
	Timeout time.Duration
	// ShipInterval is how often what is written of the open segment is shipped; 0: never.
	ShipInterval time.Duration
}

const (
	parallel  = 4 // pushes at a time
	claimTime = 20 * time.Second
	idle      = 15 * time.Second // after which memory is given back
	// identityAge is for how long a repository counts as the one that was found there first, before it is looked at again.
	identityAge = time.Minute
)

// Limits say how long an Archiver waits.
type Limits struct {
	// Patience is how long one request of the server is worked on.
	Patience time.Duration
	// LastPatience is the same while the server is being stopped: it asks three times and then ends.
	LastPatience time.Duration
	// Pause between two tries.
	Pause time.Duration
	// Overdue is after how long a push that the store has not answered counts as failing, besides a second for each MiB; it
	// is waited for all the same. 0: it never does.
	Overdue time.Duration
}

// DefaultLimits are those of a running agent.
func DefaultLimits() Limits {
	return Limits{Patience: time.Minute, LastPatience: 5 * time.Second, Pause: 3 * time.Second, Overdue: 10 * time.Second}
}

// Archiver pushes the WAL of one server, while that is a primary; see SetPrimary. Without a target it takes every file for
// archived at once.
type Archiver struct {
	walDir string // pg_wal
	log    *slog.Logger
	now    func() time.Time
	limits Limits

	mu       sync.Mutex
	target   *target
	server   serverState
	changed  chan struct{} // closed, and made anew, when the target or the state of the server is another
	pushes   map[string]*push
	behind   bool    // more files waited than may be on their way, when they were last counted
	answered string  // the last segment that the server was told is archived
	supply   *supply // of a replica that reads the archive; nil: it doesn't
	health   agentapi.ArchiveStatus
	failing  string // the file that health.Error is about; empty: it is about the lineage, or there is none
	failures int64
	pushed   int64
	release  *time.Timer

	removing sync.WaitGroup // what was fetched by supplies that ended
}

// target is a Target in use.
type target struct {
	Target
	archive *wal.Archive
	ctx     context.Context
	cancel  context.CancelFunc
	slots   chan struct{}

	claiming sync.Mutex // held while the store is asked
	claimed  bool
	same     time.Time // when the repository was last found to be the one that was there first

	shipped shipped // written with the archiver's lock held, by who ships

	mu    sync.Mutex
	tails map[string]postgres.WALTail // by the name of the segment that continues
	pace  pace
	// now, and the last damage that was found in what was archived.
	now     func() time.Time
	damaged *agentapi.DamagedWAL
}

// push is one file on its way, or archived and not yet asked for by the server.
type push struct {
	done chan struct{}
	err  error // once done is closed
}

// New makes the archiver of the server with this pg_wal.
func New(walDir string, log *slog.Logger, now func() time.Time, limits Limits) *Archiver {
	return &Archiver{walDir: walDir, log: log, now: now, limits: limits, pushes: map[string]*push{}, changed: make(chan struct{})}
}

// SetTarget says where WAL goes from now on; nil is nowhere. What is on its way to the former target is given up; the
// server asks again.
func (a *Archiver) SetTarget(to *Target) {
	a.EndSupply()
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.wake()
	if a.target != nil {
		a.target.cancel()
	}
	a.target, a.pushes, a.health, a.failing, a.answered = nil, map[string]*push{}, agentapi.ArchiveStatus{}, "", ""
	if to == nil {
		return
	}
	a.target = newTarget(*to, a.now)
	a.target.ctx, a.target.cancel = context.WithCancel(context.Background())
	a.target.slots = make(chan struct{}, max(1, min(parallel, to.Memory/int64(to.Claim.SegmentSize))))
	go a.claimEarly(a.target)
}

func newTarget(to Target, now func() time.Time) *target {
	return &target{Target: to, archive: wal.New(to.Store), tails: map[string]postgres.WALTail{}, now: now}
}

// claimEarly shows what is wrong with the target before there is WAL to push.
func (a *Archiver) claimEarly(t *target) {
	for wait := a.limits.Pause; ; wait = min(2*wait, time.Minute) {
		err := t.claim(t.ctx)
		a.note(t, "", err)
		if err == nil {
			return
		}
		select {
		case <-t.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// claim makes the lineage ours, once, and looks now and then whether the repository is still the same.
func (t *target) claim(ctx context.Context) error {
	t.claiming.Lock()
	defer t.claiming.Unlock()
	if t.Err != nil {
		return t.Err
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	if err := t.ensureSame(ctx); err != nil || t.claimed {
		return err
	}
	if _, err := layout.Claim(ctx, t.Store, t.Claim); err != nil {
		return err
	}
	t.claimed = true
	return nil
}

// ensureSame refuses a repository that is another than the one that was found there first. Nothing else tells an emptied bucket from a new
// one, and PostgreSQL removes what it is told is archived.
func (t *target) ensureSame(ctx context.Context) error {
	if t.claimed && (t.Identity == nil || t.now().Sub(t.same) < identityAge) {
		return nil
	}
	known := ""
	if t.Identity != nil {
		var err error
		if known, err = t.Identity(); err != nil {
			return fmt.Errorf("which repository was there before can't be read: %w", err)
		}
	}
	if known == "" && t.claimed {
		return nil
	}
	err := layout.EnsureSame(ctx, t.Store, known, t.Claim.Created)
	if errors.Is(err, layout.ErrReplaced) {
		return fmt.Errorf("%w; WAL stays on the volume: the condition Ready of the BackupRepository says what to do", err)
	}
	if err == nil {
		t.same = t.now()
	}
	return err
}

// Close gives up what is on its way.
func (a *Archiver) Close() { a.SetTarget(nil) }

// Archive is archive_command: it returns nil when the store has acknowledged the file at path, or on a replica when the
// primary has had it acknowledged. walsocket.ErrGivenUp: the server ends, and shall not wait for it.
func (a *Archiver) Archive(ctx context.Context, path string) error {
	if filepath.Dir(path) != a.walDir {
		return fmt.Errorf("%s is not a file of this server's %s", path, a.walDir)
	}
	name := filepath.Base(path)
	ctx, cancel := context.WithTimeout(ctx, a.limits.Patience+time.Second)
	defer cancel()
	t, err := a.awaitTurn(ctx, name)
	if err != nil || t == nil {
		return err
	}
	a.mu.Lock()
	if a.target != t {
		a.mu.Unlock()
		return fmt.Errorf("%s is not archived yet: the archive is another one now", name)
	}
	p := a.begin(t, name)
	a.mu.Unlock()
	a.lookAhead(t, name)
	if err := a.await(ctx, p, name); err != nil {
		return err
	}
	// The next time that the server asks for this name, it is asked anew: it has not noted our answer, or the push failed.
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pushes[name] == p {
		delete(a.pushes, name)
	}
	if p.err != nil {
		return errors.New(Explain(p.err))
	}
	if len(name) == segmentName && a.target == t {
		a.answered = max(a.answered, name)
	}
	return nil
}

// await waits until a push is done, as long as the server may wait; a server that ends may wait less.
func (a *Archiver) await(ctx context.Context, p *push, name string) error {
	var last <-chan time.Time
	for {
		a.mu.Lock()
		ending, changed, failing := a.server.ending, a.changed, !a.health.FailingSince.IsZero()
		a.mu.Unlock()
		select {
		case <-p.done:
			return nil
		default:
		}
		switch {
		case ending == givingUp:
			return fmt.Errorf("%s: %w", name, walsocket.ErrGivenUp)
		case ending == stopping && last == nil && failing:
			last = time.After(a.limits.LastPatience / 5) // it is away, and most likely stays so
		case ending == stopping && last == nil:
			last = time.After(a.limits.LastPatience)
		}
		select {
		case <-p.done:
			return nil
		case <-changed:
		case <-last:
			return fmt.Errorf("%s is not archived yet: %s", name, a.why(context.DeadlineExceeded))
		case <-ctx.Done():
			return fmt.Errorf("%s is not archived yet: %s", name, a.why(ctx.Err()))
		}
	}
}

// begin starts the push of a file, unless it is on its way already. The lock is held.
func (a *Archiver) begin(t *target, name string) *push {
	if p, found := a.pushes[name]; found {
		return p
	}
	p := &push{done: make(chan struct{})}
	a.pushes[name] = p
	go func() {
		p.err = a.put(t, name)
		close(p.done)
	}()
	return p
}

// lookAhead starts to push the files that the server is going to ask for next, while the archive works.
func (a *Archiver) lookAhead(t *target, current string) {
	a.mu.Lock()
	enough := len(a.pushes) > cap(t.slots)
	a.mu.Unlock()
	if enough {
		return // a long list isn't read for each file
	}
	names, err := Ready(a.walDir)
	if err != nil {
		return // the server asks for each of them in any case
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.target != t || a.server.replica || a.server.ending == givingUp || !a.health.FailingSince.IsZero() {
		return
	}
	a.behind = len(names) > 2*cap(t.slots)
	for _, name := range names {
		if len(a.pushes) >= 2*cap(t.slots) {
			return
		}
		if name > current {
			a.begin(t, name)
		}
	}
}
