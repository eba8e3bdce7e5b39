package pgbouncer

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/pkg/postgres"
)

const (
	// lookupDatabase is where PgBouncer looks passwords up: a socket of the agent, in the pod. No name in spec.databases begins with a dot.
	lookupDatabase = ".howdah_lookup"
	// lookupPort is in the name of the socket. PgBouncer's own has the port that it listens on.
	lookupPort = 1
	// lookupPool is how many passwords are looked up at once. Each has a session at the server.
	lookupPool = 4
	// lookupQuery is the question of PgBouncer, and the agent's.
	lookupQuery = "SELECT rolname, rolpassword FROM " + postgres.PoolerLookup + "($1::pg_catalog.text)"
	// lookupTime is how long a server may take for an answer, and lookupAgain how long it is until the next try.
	lookupTime, lookupAgain = 5 * time.Second, 100 * time.Millisecond
)

// lookups answers PgBouncer who asks for the password of somebody that logs in. PgBouncer could ask the server itself, but would give the
// client an error where that server dies meanwhile. The agent asks the next one instead. Any goroutine may use it.
type lookups struct {
	tls func(place) (*tls.Config, error)
	log *slog.Logger
	// tell is told whether the servers refuse the question for a reason of their own, such as that the role may not log in.
	tell func(refused bool)

	mu      sync.Mutex
	servers []place
	// replicas: the servers are those of readers.
	replicas bool
	// patient: clients are kept waiting where no server responds.
	patient bool
	changed chan struct{}
	failed  map[string]bool // reasons why servers don't respond that were logged since one has
}

func newLookups(tls func(place) (*tls.Config, error), replicas bool, tell func(refused bool), log *slog.Logger) *lookups {
	return &lookups{tls: tls, replicas: replicas, tell: tell, log: log, changed: make(chan struct{}), failed: map[string]bool{}}
}

// aim has these servers asked from now on.
func (l *lookups) aim(servers []place, patient bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.patient == patient && slices.Equal(l.servers, servers) {
		return
	}
	l.servers, l.patient = servers, patient
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lookups) aimed() (at []place, patient bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers, l.patient, l.changed
}

// listen makes the socket. One of an earlier process of the pod may be there.
func (l *lookups) listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(lookupPort))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// run serves PgBouncer's connections until ctx ends.
func (l *lookups) run(ctx context.Context, listener net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			l.log.Error("PgBouncer can't look passwords up; trying again", "error", err)
			select {
			case <-time.After(lookupAgain):
			case <-ctx.Done():
			}
		default:
			all.Go(func() { l.serve(ctx, conn) })
		}
	}
}

// explain logs, once for each reason, why no password can be looked up.
func (l *lookups) explain(server place, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || isFinal(err) {
		l.tell(err != nil)
	}
	if err == nil {
		clear(l.failed)
		return
	}
	if reason := server.Pod + ": " + why(err); !l.failed[reason] {
		l.failed[reason] = true
		l.log.Warn("passwords can't be looked up", "pod", server.Pod, "error", err)
	}
}

// asker looks passwords up over a session at a server, which it opens when it needs one. Only one goroutine may use it.
type asker struct {
	of   *lookups
	at   place
	conn *pgconn.PgConn
	turn int // of the servers
}

// ask asks one server after the other, for as long as clients are kept waiting. It finds the name of a role and its verifier, or nothing.
func (a *asker) ask(ctx context.Context, role []byte) (found [][]byte, err error) {
	for begin := time.Now(); ; {
		servers, patient, changed := a.of.aimed()
		used := a.conn != nil // the session may have ended since
		found, err = a.try(ctx, servers, changed, role)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case isClosed(changed) && err != nil, used && err != nil && a.conn == nil && !isFinal(err):
			continue
		}
		a.of.explain(a.at, err)
		if err == nil || isFinal(err) || !patient || time.Since(begin) > pauseLimit {
			return found, err
		}
		select {
		case <-changed:
		case <-time.After(lookupAgain):
		case <-ctx.Done():
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errReplica is one of a server that may know less than the primary.
var errReplica = errors.New("it is a replica")

// try asks one server, until others are to be asked.
func (a *asker) try(ctx context.Context, servers []place, changed <-chan struct{}, role []byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	a.leave(servers)
	if a.conn == nil || a.conn.IsClosed() {
		a.close()
		if err := a.open(ctx, servers); err != nil {
			return nil, err
		}
	}
	result := a.conn.ExecParams(ctx, lookupQuery, [][]byte{role}, nil, nil, nil).Read()
	var said *pgconn.PgError
	switch {
	case errors.As(result.Err, &said) && said.Code == notText:
		return nil, nil
	case result.Err != nil:
		a.close()
		return nil, result.Err
	case len(result.Rows) == 0:
		return nil, nil
	}
	return result.Rows[0], nil
}

// notText is the code of an error of bytes that are no text in the encoding of the server, so no role has that name.
const notText = "22021"

func (a *asker) open(ctx context.Context, servers []place) (err error) {
	if len(servers) == 0 {
		return errors.New("there is no server yet")
	}
	a.turn++
	a.at = servers[a.turn%len(servers)]
	conn, err := connectTo(ctx, a.of.tls, a.at, postgres.RolePooler+" lookup")
	if err != nil {
		return err
	}
	a.conn = conn
	if a.of.replicas {
		return nil
	}
	result := conn.ExecParams(ctx, "SELECT pg_catalog.pg_is_in_recovery()", nil, nil, nil, nil).Read()
	if err = result.Err; err == nil && (len(result.Rows) != 1 || string(result.Rows[0][0]) != "f") {
		err = errReplica
	}
	if err != nil {
		a.close()
	}
	return err
}

// leave ends the session at a server that is none of these. A replica that is about to end waits for that.
func (a *asker) leave(servers []place) {
	if a.conn != nil && !slices.Contains(servers, a.at) {
		a.close()
	}
}

// close doesn't say so to the server, which may be frozen.
func (a *asker) close() {
	if a.conn != nil {
		_ = a.conn.Conn().Close()
	}
	a.conn = nil
}

// isFinal says that a server refuses the question for a reason of its own, so that it makes no sense to ask again.
func isFinal(err error) bool {
	var said *pgconn.PgError
	if !errors.As(err, &said) || len(said.Code) < 2 {
		return false
	}
	switch said.Code[:2] {
	case "08", "40", "53", "57": // of connections, conflicts with recovery, too few resources, and of a server that starts or ends
		return false
	}
	return true
}
