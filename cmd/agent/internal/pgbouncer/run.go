// Package pgbouncer is `agent pooler`: it runs PgBouncer in front of the primary of a cluster, or of its replicas. It asks the agent of the primary all the time
// whether that is still the primary, and who its replicas are. Before a handover, and while there is no primary, PgBouncer keeps what clients ask for; as soon as
// there is one again, they continue there.
//
// One goroutine decides everything: the loop of a pooler. The others only watch, ask and wait, and tell it.
package pgbouncer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// Paths are where things are; DefaultPaths in a pod.
type Paths struct {
	ConfigFile string
	TLSDir     string
	RunDir     string
	Port       int // of PgBouncer
}

// DefaultPaths are those of a pod.
func DefaultPaths() Paths {
	return Paths{ConfigFile: agentapi.PoolerConfigFile, TLSDir: agentapi.PoolerTLSDir, RunDir: agentapi.PoolerRunDir, Port: agentapi.PoolerPort}
}

// Options of a pooler.
type Options struct {
	Paths
	Pod string
	// Command runs PgBouncer; its configuration is the last argument.
	Command []string
	API     API
	// AgentPort is that of agents.
	AgentPort int
	// Lead is how long connections are still accepted after the pod was told to end: Kubernetes leads clients here until all nodes know.
	Lead time.Duration
	Log  *slog.Logger
}

const (
	tickTime = 250 * time.Millisecond
	// lookTime is between two looks at files that Kubernetes replaces now and then.
	lookTime = 2 * time.Second
	// lastTime is how long PgBouncer may take to end once nobody is waited for any more.
	lastTime = 10 * time.Second
)

// Pooler runs one PgBouncer.
type Pooler struct {
	Options
	State

	config  agentapi.PoolerConfig
	files   [sha256.Size]byte // certificate and key that PgBouncer has read
	refused *setup            // that PgBouncer was told to read last; nil: it has read it
	looked  time.Time
	bouncer *bouncer
	poller  *poller
	pulse   *pulse
	lookups *lookups
	strays  *strays
	wakes   wakes
	mind    mind
	target  place   // that is asked
	servers []place // that PgBouncer sends clients to; none: it doesn't run yet
	others  bool    // clients may have transactions on former ones, which are to be ended
	// endPause ends the wait for transactions to end; nil: nobody waits. paused: they have.
	endPause context.CancelFunc
	paused   bool
	drained  chan string // the number of a pause whose transactions have ended
	pauses   int
	leaving  bool // PgBouncer ends when its clients have gone, or have had the time to
	shutting bool // it ends when their transactions have
	// waitsFor is the reason why clients wait that was logged last.
	waitsFor string
	// mute is since when PgBouncer doesn't answer; zero: it does.
	mute time.Time
	// doubted is since when the server that clients are sent to may be dead, whatever its agent says; zero: it isn't doubted.
	doubted time.Time
}

// New makes a pooler; Run starts it.
func New(options Options) *Pooler {
	return &Pooler{Options: options, drained: make(chan string), strays: newStrays()}
}

// Run runs PgBouncer until ctx ends and its clients have gone, or it has waited long enough for that.
func (p *Pooler) Run(ctx context.Context) error {
	config, err := p.readConfig()
	if err != nil {
		return err
	}
	p.config = config
	p.mind.readOnly, p.mind.knownLagOnly = config.ReadOnly, config.KnownLagOnly
	p.change(func() { p.readOnly = config.ReadOnly })
	p.bouncer = &bouncer{paths: p.Paths, command: p.Command, password: rand.Text(), log: p.Log, crashes: newCrashes(os.Stderr), ended: make(chan struct{})}
	p.use(p.bouncer)
	p.poller = newPoller(p.TLSDir, p.AgentPort, config.PodHost)
	p.lookups = newLookups(p.serverTLS, config.ReadOnly, p.looksUp, p.Log)
	if err := os.MkdirAll(p.RunDir, 0o755); err != nil {
		return err
	}
	listener, err := p.lookups.listen(p.RunDir)
	if err != nil {
		return fmt.Errorf("a socket for looking passwords up: %w", err)
	}
	beside, end := context.WithCancel(context.WithoutCancel(ctx)) // to the end of PgBouncer
	p.pulse = newPulse(p.serverTLS, p.Log)
	places, reports, signs := make(chan place), make(chan report), make(chan sign)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	all.Go(func() { watch(beside, p.API, config.Namespace, config.EndpointSlice, p.Log, places) })
	all.Go(func() { p.poller.run(beside, reports) })
	all.Go(func() { p.pulse.run(beside, signs) })
	all.Go(func() { p.lookups.run(beside, listener) })
	all.Go(func() { p.wakes.run(beside) })
	all.Go(func() { p.bouncer.crashes.tell(beside, p.pulse, signs) })
	return p.loop(ctx, beside, places, reports, signs)
}

// serverTLS is for a server, which may show a certificate of another CA than its agent does.
func (p *Pooler) serverTLS(to place) (*tls.Config, error) {
	return p.poller.trusting(to, serverCA(p.Paths))
}

func (p *Pooler) readConfig() (config agentapi.PoolerConfig, err error) {
	content, err := os.ReadFile(p.ConfigFile)
	if err != nil {
		return config, err
	}
	return config, json.Unmarshal(content, &config)
}

// loop takes in what happens, until PgBouncer has ended.
func (p *Pooler) loop(ctx, beside context.Context, places <-chan place, reports <-chan report, signs <-chan sign) error {
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	stopping := ctx.Done()
	var due <-chan time.Time
	var steps []func() time.Duration
	for {
		var err error
		select {
		case <-p.bouncer.ended:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("PgBouncer ended unexpectedly: %w", orNil(p.bouncer.err))
		case <-stopping:
			stopping = nil
			if len(p.servers) == 0 {
				return nil
			}
			steps = p.shutdown(beside)
			due = time.After(p.Lead)
			p.drains()
		case <-due:
			due = time.After(steps[0]())
			if steps = steps[1:]; len(steps) == 0 {
				due = nil
			}
		case to := <-places:
			p.aim(to)
		case r := <-reports:
			err = p.hear(beside, r)
		case s := <-signs:
			err = p.feel(beside, s)
		case id := <-p.drained:
			p.hasDrained(id)
		case v := <-p.strays.silent:
			err = p.leave(beside, v)
		case <-tick.C:
			err = errors.Join(p.look(beside), p.act(beside, p.mind.tick(p.now()), nil))
			if p.leaving && !p.shutting && !p.bouncer.hasClients(beside) {
				due = time.After(0)
			}
		}
		if err != nil {
			p.Log.Error("PgBouncer is not in the requested state; trying again", "error", err)
		}
		p.beat()
	}
}

// now is when something was learned. A pooler that was frozen until then notes that first.
func (p *Pooler) now() time.Time {
	now := time.Now()
	p.mind.slept(p.wakes.slept(now))
	return now
}

// act does to PgBouncer what was decided; to are the servers, where there are any.
func (p *Pooler) act(ctx context.Context, what act, to []place) error {
	if len(p.servers) == 0 && what != serve {
		return nil
	}
	switch what {
	case serve:
		return p.serve(ctx, to)
	case hold:
		return p.hold(ctx)
	case release:
		p.Log.Warn("clients were kept waiting for long enough", "limit", pauseLimit.String())
		return p.release(ctx)
	}
	return nil
}

// nowhere is a server that refuses every connection.
func nowhere() []place { return []place{{Address: "127.0.0.1", Port: 1}} }

// release lets clients continue without a server that is known to be right. Whoever writes finds out where there is a primary. A reader wouldn't notice
// that a replica lags, so readers are sent nowhere: they wait until PgBouncer's own limit.
func (p *Pooler) release(ctx context.Context) error {
	p.fails()
	p.lookups.aim(p.servers, false)
	if p.config.ReadOnly {
		if err := p.bouncer.use(ctx, p.config, nowhere()); err != nil {
			return err
		}
		p.servers = nowhere()
	}
	return p.goOn(ctx)
}

// serve sends clients to these servers.
func (p *Pooler) serve(ctx context.Context, to []place) error {
	p.lookups.aim(to, true)
	if len(p.servers) == 0 {
		return p.begin(ctx, to)
	}
	if !slices.Equal(to, p.servers) {
		if p.config.ReadOnly { // they are not paused
			if err := p.bouncer.settle(ctx, settleTime, int(p.config.PoolSize)); err != nil {
				return err
			}
		}
		if err := p.bouncer.use(ctx, p.config, to); err != nil {
			return err
		}
		p.Log.Info("clients are sent elsewhere", "pods", names(to))
		p.send(to)
		p.others = !p.config.ReadOnly
	}
	if err := p.goOn(ctx); err != nil {
		return err
	}
	p.serves(names(to))
	if !p.others {
		return nil
	}
	err := p.bouncer.endOthers(ctx, to[0])
	p.others = err != nil
	return err
}

// send notes where clients are sent to. A server is watched that they are kept waiting for when it dies.
func (p *Pooler) send(to []place) {
	p.servers, p.doubted = to, time.Time{}
	p.watchServer()
}

func (p *Pooler) watchServer() {
	if p.config.Pausable() && !p.config.ReadOnly {
		p.pulse.watch(p.servers[0])
	}
}

func names(of []place) string {
	var all []string
	for _, server := range of {
		all = append(all, server.Pod)
	}
	return strings.Join(all, ", ")
}

// begin starts PgBouncer.
func (p *Pooler) begin(ctx context.Context, to []place) error {
	p.files = p.sum()
	if err := p.bouncer.start(ctx, p.config, to); err != nil {
		return err
	}
	p.Log.Info("PgBouncer accepts connections", "pods", names(to))
	p.send(to)
	p.serves(names(to))
	return nil
}

// hold keeps what clients ask for, and learns when no transaction is open any more.
func (p *Pooler) hold(ctx context.Context) error {
	if p.shutting || p.endPause != nil {
		return nil
	}
	if !p.config.Pausable() {
		return p.refuse(ctx)
	}
	announced := p.mind.handover != "" // the primary still is there, and waits for a pooler that has heard
	if announced {
		p.tell()
	}
	ctx, end := context.WithCancel(ctx)
	drained, err := p.bouncer.pause(ctx, p.settles(announced), int(p.config.PoolSize))
	if err != nil {
		end()
		return fmt.Errorf("pause: %w", err)
	}
	p.endPause = end
	p.pauses++
	id := fmt.Sprint(p.pauses)
	p.Log.Info("clients wait", "handover", announced)
	p.holds()
	go func() {
		if err := drained(); err != nil {
			if ctx.Err() == nil {
				p.Log.Error("it is not known whether transactions have ended", "error", err)
			}
			return
		}
		select {
		case p.drained <- id:
		case <-ctx.Done():
		}
	}()
	return nil
}

// settles is how long logins may take to end before a pause.
func (p *Pooler) settles(announced bool) time.Duration {
	switch {
	case announced:
		return settleTime
	case p.doubted.IsZero(): // only its agent doesn't respond, as far as it is known
		return settleShortly
	}
	return 0
}

// refuse sends new readers nowhere where PgBouncer can't pause. Those that are connected keep their replicas.
func (p *Pooler) refuse(ctx context.Context) error {
	if !p.config.ReadOnly || slices.Equal(p.servers, nowhere()) {
		return nil
	}
	return p.release(ctx)
}

func (p *Pooler) hasDrained(id string) {
	if p.endPause == nil || id != fmt.Sprint(p.pauses) {
		return
	}
	p.paused = true
	p.tell()
}

// goOn lets clients continue.
func (p *Pooler) goOn(ctx context.Context) error {
	if p.endPause == nil {
		return nil
	}
	if err := p.bouncer.resume(ctx); err != nil {
		return err
	}
	p.endPause()
	p.endPause, p.paused = nil, false
	p.Log.Info("clients continue")
	return nil
}

// look takes in what nobody tells: a changed configuration and certificates, and what PgBouncer does.
func (p *Pooler) look(ctx context.Context) error {
	if len(p.servers) == 0 || time.Since(p.looked) < lookTime {
		return nil
	}
	p.looked = time.Now()
	if err := p.endHung(ctx); err != nil {
		return err
	}
	p.reread(ctx)
	return errors.Join(p.lookForStrays(ctx), p.keep(ctx), p.bouncer.prepare(ctx))
}

// hungTime is how long PgBouncer may not answer.
const hungTime = time.Minute

// endHung ends a PgBouncer that has not answered for long, so that the container begins anew: nobody could tell it to let its clients continue.
func (p *Pooler) endHung(ctx context.Context) error {
	err := p.bouncer.answers(ctx)
	switch {
	case err == nil:
		p.mute = time.Time{}
	case p.mute.IsZero():
		p.mute = time.Now()
	case time.Since(p.mute) > hungTime:
		p.Log.Error("PgBouncer does not answer, and is ended", "error", err)
		return p.bouncer.process.Process.Kill()
	}
	return err
}

// keep has PgBouncer be paused just when it should be, whatever became of a command.
func (p *Pooler) keep(ctx context.Context) error {
	switch {
	case p.mind.held:
		return p.hold(ctx)
	case p.mind.letGo && p.endPause != nil:
		return p.release(ctx) // it has failed
	}
	if p.endPause != nil || p.shutting {
		return nil
	}
	paused, err := p.bouncer.isPaused(ctx)
	if err != nil || !paused {
		return err
	}
	p.Log.Warn("PgBouncer was paused unnecessarily")
	return p.bouncer.resume(ctx)
}

// shutdown are the steps of the end, each with how long to wait after it, at most: clients may go; then no new transactions; then nothing.
// PgBouncer's SHUTDOWN WAIT_FOR_CLIENTS is none of them: whoever is still connected then could not be kept waiting in a handover.
func (p *Pooler) shutdown(ctx context.Context) []func() time.Duration {
	leave := func() time.Duration {
		p.leaving = true
		return max(0, time.Duration(p.config.DrainSeconds)*time.Second)
	}
	shut := func() time.Duration {
		p.shutting = true
		p.tell()
		if p.endPause != nil { // who waits is told that PgBouncer ends
			p.endPause()
			p.endPause, p.paused = nil, false
		}
		p.Log.Info("PgBouncer ends once no transaction is open")
		if err := p.bouncer.do(ctx, "SHUTDOWN WAIT_FOR_SERVERS"); err != nil {
			p.Log.Error("PgBouncer did not end when it was told to", "error", err)
		}
		return lastTime
	}
	kill := func() time.Duration {
		_ = p.bouncer.process.Process.Kill() // it has ended otherwise
		return lastTime
	}
	return []func() time.Duration{leave, shut, kill}
}
