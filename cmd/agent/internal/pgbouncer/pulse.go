package pgbouncer

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	// loginTime is how long a login of a pulse may take. After one that has failed the next begins loginAgain later, after two so twice that, up to
	// loginLater.
	loginTime, loginAgain, loginLater = 3 * time.Second, 50 * time.Millisecond, time.Second
	// unwatched is how long a server isn't watched that refuses the login for a reason of its own.
	unwatched = 10 * time.Second
	// doubt is for how long the word of an agent doesn't count whose server has just ended a pulse.
	doubt = 5 * time.Second
)

// pulse keeps a session at the server that clients are sent to. It ends in the moment in which that server dies, and so earlier than its agent
// can say so: until clients are kept waiting, PgBouncer answers them with the error of a failed login. Any goroutine may use it.
type pulse struct {
	tls func(place) (*tls.Config, error)
	log *slog.Logger
	// failed is the reason why no session began that was logged last. It is of run alone.
	failed string

	mu      sync.Mutex
	place   place
	changed chan struct{}
}

// sign is what a pulse tells of a server.
type sign struct {
	place place
	state pulseState
}

type pulseState int

const (
	// ended: the server has ended a session.
	ended pulseState = iota
	// starting: it is there, and accepts no session yet.
	starting
	// alive: it accepts sessions.
	alive
)

func newPulse(tls func(place) (*tls.Config, error), log *slog.Logger) *pulse {
	return &pulse{tls: tls, log: log, changed: make(chan struct{})}
}

// watch has another server watched.
func (p *pulse) watch(to place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.place != to {
		p.place = to
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// renew has the session at the server begin anew.
func (p *pulse) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pulse) next() (place, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.place, p.changed
}

// run tells when the server that is watched accepts a session, and when that ends, until ctx ends.
func (p *pulse) run(ctx context.Context, signs chan<- sign) {
	failures := 0
	for ctx.Err() == nil {
		to, changed := p.next()
		var again <-chan time.Time
		if to != (place{}) {
			began, pause := p.session(ctx, to, changed, signs)
			if failures++; began {
				failures = 1
			}
			again = time.After(max(pause, min(time.Duration(failures)*loginAgain, loginLater)))
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// session logs in, and waits for the end of it. It says whether it began, and for how long there shall be no other one.
func (p *pulse) session(ctx context.Context, to place, changed <-chan struct{}, signs chan<- sign) (began bool, rest time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	tell := func(state pulseState) {
		select {
		case signs <- sign{to, state}:
		case <-ctx.Done():
		}
	}
	conn, err := p.connect(ctx, to)
	p.explain(ctx, to, err)
	switch said := (*pgconn.PgError)(nil); {
	case err == nil:
	case !errors.As(err, &said):
		return false, 0
	case strings.HasPrefix(said.Code, "57P"):
		tell(starting)
		return false, 0
	default: // it would accept the sessions of others
		tell(alive)
		return false, unwatched
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tell(alive)
	for err = nil; err == nil; { // it is told nothing
		err = conn.WaitForNotification(ctx)
	}
	tell(ended)
	return true, 0
}

// explain logs, once for each reason, why no session begins. A server that isn't watched still serves, so nothing else says it.
func (p *pulse) explain(ctx context.Context, to place, err error) {
	if ctx.Err() != nil { // another one is watched
		return
	}
	reason := ""
	if err != nil {
		reason = to.Pod + ": " + why(err)
	}
	if err != nil && reason != p.failed {
		p.log.Warn("the server can't be watched", "pod", to.Pod, "error", err)
	}
	p.failed = reason
}

// why is what errors of one reason have in common: they may have another port each time.
func why(err error) string {
	var said *pgconn.PgError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &said):
		return said.Code
	case errors.As(err, &certificate):
		return "its certificate is not accepted"
	}
	return "it does not respond"
}

func (p *pulse) connect(ctx context.Context, to place) (*pgconn.PgConn, error) {
	return connectTo(ctx, p.tls, to, postgres.RolePooler)
}

// connectTo opens a session of the pooler's own at a server.
func connectTo(ctx context.Context, trusting func(place) (*tls.Config, error), to place, application string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	if config.TLSConfig, err = trusting(to); err != nil {
		return nil, err
	}
	config.TLSConfig.NextProtos, config.TLSConfig.MinVersion = nil, tls.VersionTLS12
	config.Host, config.Port, config.Fallbacks = to.Address, uint16(to.Port), nil
	config.User, config.Database, config.ConnectTimeout = postgres.RolePooler, "postgres", loginTime
	config.RuntimeParams = map[string]string{
		"application_name": application, "idle_session_timeout": "0", "search_path": "pg_catalog",
		"statement_timeout": strconv.FormatInt(lookupTime.Milliseconds(), 10),
	}
	return pgconn.ConnectConfig(ctx, config)
}
