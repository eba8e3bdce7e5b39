//go:build postgres

package pgbouncer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/api"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/cmd/agent/internal/routing"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/bouncertest"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// bed is a cluster of servers with their agents' routes, and a pooler in front of them.
type bed struct {
	t               *testing.T
	ca              *authority.Authority
	dir             string
	agentPort, port int // of all servers
	slice           *sliceAPI
	pooler          *Pooler
	stop            context.CancelFunc
	ended           chan error
	config          agentapi.PoolerConfig
	limit           int // of PgBouncer's open files; 0: none but the usual one
}

// instance is one server and the desk of its agent.
type instance struct {
	*pgtest.Server
	desk  *routing.Desk
	term  atomic.Int64
	place place
	api   *http.Server
}

// agent has the routes of an agent, as far as poolers use them.
type agent struct {
	api.Agent
	desk *routing.Desk
}

func (a agent) Respond(ctx context.Context, r agentapi.PoolerRequest) agentapi.PoolerAnswer {
	return a.desk.Respond(ctx, r)
}

// sliceAPI is an API server that has one EndpointSlice.
type sliceAPI struct {
	changes chan json.RawMessage
	now     json.RawMessage
}

func (a *sliceAPI) Get(_ context.Context, _ string, into any) error {
	return json.Unmarshal(a.now, into)
}

func (a *sliceAPI) Watch(ctx context.Context, _, _, _ string, each func(json.RawMessage) error) error {
	for {
		select {
		case next := <-a.changes:
			if err := each(next); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func sliceOf(to place) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"metadata":{"resourceVersion":"1"},"endpoints":[{"addresses":[%q],"conditions":{"ready":true},"targetRef":{"name":%q}}],"ports":[{"port":%d}]}`,
		to.Address, to.Pod, to.Port))
}

// newBed is the first thing that a test makes. Tests run in parallel, as they wait more than they compute.
func newBed(t *testing.T) *bed {
	t.Helper()
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	dir := pgtest.Dir(t)
	return &bed{t: t, ca: authority.New(t), dir: dir, agentPort: pgtest.Port(t), port: 5432}
}

// instance starts a server with its agent, at an address that no other test has: the port of its agents is in it, which is this
// test's alone. prepare may make a standby of it.
func (b *bed) instance(n int, prepare func(*pgtest.Server)) *instance {
	b.t.Helper()
	pod, address := fmt.Sprintf("shop-%d", n), fmt.Sprintf("127.%d.%d.%d", b.agentPort>>8, b.agentPort&255, n+1)
	hba, err := postgres.RenderHBA(postgres.HBA{})
	if err != nil {
		b.t.Fatal(err)
	}
	ident, err := postgres.RenderIdent(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	maps := filepath.Join(pgtest.Dir(b.t), "pg_ident.conf")
	if err := os.WriteFile(maps, []byte(ident), 0o644); err != nil {
		b.t.Fatal(err)
	}
	s := pgtest.Init(b.t, pgtest.Options{HBA: "local all,replication postgres trust\n" + hba})
	if prepare != nil {
		prepare(s)
	}
	tls := filepath.Join(b.dir, pod)
	b.ca.Fill(b.t, tls, pod, pod+".shop-pods.demo.svc")
	pgtest.Own(b.t, tls)
	s.Configure(map[string]string{
		"listen_addresses": address, "port": strconv.Itoa(b.port), "cluster_name": "shop", "ssl": "on", "ssl_cert_file": filepath.Join(tls, "tls.crt"),
		"ssl_key_file": filepath.Join(tls, "tls.key"), "ssl_ca_file": filepath.Join(tls, "ca.crt"), "log_connections": "on", "ident_file": maps,
	})
	s.Start()
	i := &instance{Server: s, place: place{pod, address, b.port}}
	i.desk = routing.New(func() routing.Facts {
		return routing.Facts{Pod: pod, DataGeneration: "g", Term: i.term.Load(), Leads: true}
	})
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(b.agentPort)))
	if err != nil {
		b.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	i.api = api.Server(api.Handler(agent{desk: i.desk}, http.NotFoundHandler()), tls, log)
	go func() { _ = i.api.ServeTLS(listener, "", "") }()
	b.t.Cleanup(func() { _ = i.api.Close() })
	return i
}

// roles makes what every cluster has, and the role that clients log in as.
func (b *bed) roles(i *instance) {
	b.t.Helper()
	server := local.Server{SocketDir: i.SocketDir, Port: b.port}
	if err := roles.Ensure(b.t.Context(), server, roles.Wanted{Major: i.Major, Database: "shop", Owner: "app", Password: "secret"}); err != nil {
		b.t.Fatal(err)
	}
}

// lead makes an instance the primary that poolers are led to.
func (b *bed) lead(i *instance, term int64) {
	i.term.Store(term)
	i.desk.Serve(true)
	if b.slice == nil {
		b.slice = &sliceAPI{changes: make(chan json.RawMessage), now: sliceOf(i.place)}
		return
	}
	b.slice.changes <- sliceOf(i.place)
}

// run starts the pooler and waits until clients may come.
func (b *bed) run(change func(*agentapi.PoolerConfig)) {
	b.t.Helper()
	b.config = agentapi.PoolerConfig{
		Cluster: "shop", Namespace: "demo", EndpointSlice: "shop-rw", PodDomain: "shop-pods.demo.svc",
		Mode: "transaction", PoolSize: 10, MaxClientConnections: 200, DrainSeconds: 2,
	}
	if change != nil {
		change(&b.config)
	}
	paths := Paths{ConfigFile: filepath.Join(b.dir, "pooler.json"), TLSDir: filepath.Join(b.dir, "tls"), RunDir: filepath.Join(b.dir, "run"), Port: pgtest.Port(b.t)}
	b.write(paths.ConfigFile)
	b.ca.Fill(b.t, paths.TLSDir, agentapi.PoolerRole, "shop-pooler.demo.svc", "localhost")
	for _, dir := range []string{paths.TLSDir, paths.RunDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
		pgtest.Own(b.t, dir)
	}
	if err := os.Chmod(paths.RunDir, 0o775|os.ModeSetgid); err != nil { // PgBouncer is of another user here
		b.t.Fatal(err)
	}
	command := []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}
	if b.limit > 0 {
		command = append(command, "prlimit", fmt.Sprintf("--nofile=%d:%d", b.limit, b.limit))
	}
	b.pooler = New(Options{
		Paths: paths, Pod: "pool-1", Command: append(command, bouncertest.Command(b.t)...),
		API: b.slice, AgentPort: b.agentPort, Log: slog.New(slog.NewTextHandler(writer{b.t}, nil)),
	})
	ctx, stop := context.WithCancel(b.t.Context())
	b.stop, b.ended = stop, make(chan error, 1)
	go func() { b.ended <- b.pooler.Run(ctx) }()
	b.t.Cleanup(func() {
		stop()
		select {
		case <-b.ended:
		case <-time.After(2 * time.Minute):
			b.t.Error("the pooler does not end")
		}
	})
	b.until("the pooler is ready", func() bool { return b.pooler.Ready() == nil })
}

type writer struct{ t *testing.T }

func (w writer) Write(p []byte) (int, error) {
	fmt.Fprintf(os.Stderr, "%s: %s", w.t.Name(), p)
	return len(p), nil
}

func (b *bed) write(file string) {
	content, err := json.Marshal(b.config)
	if err == nil {
		err = os.WriteFile(file, content, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) until(what string, holds func() bool) {
	b.t.Helper()
	b.untilWithin(2*time.Minute, what, holds)
}

func (b *bed) untilWithin(limit time.Duration, what string, holds func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		select {
		case err := <-b.ended:
			b.ended <- err
			b.t.Fatalf("%s: the pooler ended: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func (b *bed) databaseDSN(database string) string {
	return strings.Replace(b.dsn("app", "secret"), "dbname=shop", "dbname="+database, 1)
}

func (b *bed) dsn(user, password string) string {
	return fmt.Sprintf("host=localhost port=%d dbname=shop user=%s password=%s sslmode=verify-full sslrootcert=%s default_query_exec_mode=exec",
		b.pooler.Port, user, password, filepath.Join(b.dir, "tls", "ca.crt"))
}

func (b *bed) connect() *pgx.Conn {
	b.t.Helper()
	return b.connectTo(b.dsn("app", "secret"))
}

// connectTo keeps the connection until the end of the test: one that nothing refers to is closed by the garbage collector.
func (b *bed) connectTo(dsn string) *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// port is where a query ends up.
func (b *bed) asked(conn *pgx.Conn) string {
	b.t.Helper()
	var address string
	if err := conn.QueryRow(b.t.Context(), "SELECT host(inet_server_addr())").Scan(&address); err != nil {
		b.t.Fatal(err)
	}
	return address
}

// standby makes a server's data a copy of another's, which it follows.
func standby(t *testing.T, of *instance, port int) func(*pgtest.Server) {
	return func(s *pgtest.Server) {
		if err := os.RemoveAll(s.DataDir); err != nil {
			t.Fatal(err)
		}
		s.Run(t, "pg_basebackup", "-D", s.DataDir, "-R", "-X", "stream", "-c", "fast", "-d", fmt.Sprintf("host=%s port=%d user=postgres", of.SocketDir, port))
	}
}
