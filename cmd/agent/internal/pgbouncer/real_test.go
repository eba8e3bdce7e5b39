//go:build postgres

package pgbouncer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
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

func TestClientsLogInWithTheirOwnPasswordAndNobodyElseDoes(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	if got := b.asked(b.connect()); got != a.place.Address {
		t.Errorf("sent to %s", got)
	}
	recorder := httptest.NewRecorder()
	Metrics(b.pooler).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"howdah_pooler_up 1", "howdah_pooler_waiting 0", `howdah_pooler_clients{database="shop",state="active",user="app"} 1`, `howdah_pooler_transactions_total{database="shop"} 1`} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("no %s in %s", want, recorder.Body)
		}
	}
	for _, login := range [][2]string{{"app", "wrong"}, {"postgres", ""}, {"howdah_pooler", ""}, {"howdah_backup", "x"}, {"nobody", "x"}, {console, "x"}} {
		conn, err := pgx.Connect(t.Context(), b.dsn(login[0], login[1]))
		if err == nil {
			conn.Close(t.Context())
			t.Errorf("%s logs in with %q", login[0], login[1])
		}
	}
	for _, file := range []string{iniFile, userFile} {
		content, err := os.ReadFile(filepath.Join(b.pooler.RunDir, file))
		if err != nil || strings.Contains(string(content), "secret") || strings.Contains(string(content), "SCRAM") {
			t.Errorf("%s has a password of a client, or none: %v", file, err)
		}
	}
}

func TestNobodyIsSentToAReplicaWhateverTheAgentSays(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	b.lead(c, 2) // it isn't: it was not promoted yet
	b.until("the pooler uses the replica", func() bool { return b.pooler.Serving() == c.place.Pod })
	answered := make(chan string, 1)
	go func() { // it waits
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT host(inet_server_addr()) || CASE WHEN pg_is_in_recovery() THEN ' as a replica' ELSE '' END").Scan(&got); err != nil {
			got = err.Error()
		}
		answered <- got
	}()
	b.until("the replica was tried", func() bool { return strings.Count(c.Log(), "terminating connection due to administrator command") > 2 })
	select {
	case got := <-answered:
		t.Fatalf("a query was answered: %s", got)
	default:
	}
	c.SQL("SELECT pg_promote()")
	if got := <-answered; got != c.place.Address {
		t.Errorf("a query was answered by %s", got)
	}
}

// An address may become that of another cluster's primary, whose certificate is of the same CA, and whose roles have the same passwords.
func TestNobodyIsSentToAServerOfAnotherClusterThatHasTheAddress(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	other := b.instance(1, standby(t, a, b.port))
	other.SQL("SELECT pg_promote()")
	other.SQL("ALTER SYSTEM SET cluster_name = restored")
	other.Stop()
	other.Start()
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	b.lead(other, 2)
	b.until("the pooler uses the other server", func() bool { return b.pooler.Serving() == other.place.Pod })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var address string
	if err := conn.QueryRow(ctx, "SELECT host(inet_server_addr())").Scan(&address); err == nil {
		t.Errorf("a query was answered by %s", address)
	}
}

func TestTransactionsOfManyClientsSurviveAHandover(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	b.lead(a, 1)
	b.run(nil)
	load := b.load(20, "postgres")
	b.until("clients are at work", func() bool { return load.done.Load() > 200 })
	begin := time.Now()
	if paused, late := a.desk.Pause(t.Context()); paused != 1 || late != 0 {
		t.Fatalf("%d poolers have paused, %d have not", paused, late)
	}
	waited := time.Since(begin)
	a.desk.Serve(false)
	a.Stop()
	c.SQL("SELECT pg_promote()")
	promoted := time.Now()
	count := load.done.Load()
	b.lead(c, 2)
	b.until("clients continue", func() bool { return load.done.Load() > count })
	resumed := time.Since(promoted)
	b.until("clients are at work again", func() bool { return load.done.Load() > count+200 })
	load.end()
	t.Logf("paused within %v, the first transaction %v after the promotion; longest wait %v, %d transactions", waited, resumed, time.Duration(load.longest.Load()), load.done.Load())
	if failed := load.failed.Load(); failed != 0 {
		t.Errorf("%d transactions have failed: %v", failed, load.first.Load())
	}
	if rows := c.SQL("SELECT count(*) FROM t"); rows != fmt.Sprint(load.done.Load()) {
		t.Errorf("%s rows, %d were acknowledged", rows, load.done.Load())
	}
}

// load are clients that write rows in transactions.
type load struct {
	done, failed, longest atomic.Int64
	refused               atomic.Int64 // of those that have failed: PgBouncer didn't even try
	first                 atomic.Value
	end                   func()
}

func (b *bed) load(clients int, database string) *load { return b.loadWithPauses(clients, database, 0) }

// loadWithPauses is a load of clients that pause between their transactions, so that they come at any moment.
func (b *bed) loadWithPauses(clients int, database string, pause time.Duration) *load {
	b.t.Helper()
	l := &load{}
	ctx, cancel := context.WithCancel(b.t.Context())
	ends := make(chan struct{}, clients)
	for n := range clients {
		go func() {
			defer func() { ends <- struct{}{} }()
			conn, err := pgx.Connect(b.t.Context(), b.databaseDSN(database))
			if err != nil {
				l.failed.Add(1)
				l.first.CompareAndSwap(nil, err.Error())
				return
			}
			defer conn.Close(context.Background())
			for i := 0; ctx.Err() == nil; i++ {
				time.Sleep(pause)
				begin := time.Now()
				if err := transaction(b.t.Context(), conn, n, i); err != nil {
					l.failed.Add(1)
					if strings.Contains(err.Error(), "login has been failing") {
						l.refused.Add(1)
					}
					l.first.CompareAndSwap(nil, err.Error())
					return
				}
				l.done.Add(1)
				took := int64(time.Since(begin))
				for old := l.longest.Load(); took > old && !l.longest.CompareAndSwap(old, took); old = l.longest.Load() {
				}
			}
		}()
	}
	l.end = func() {
		cancel()
		for range clients {
			<-ends
		}
	}
	return l
}

// PAUSE breaks off a login that is under way, and PgBouncer would answer who comes next with an error, until another one has succeeded.
func TestHandoversWhileConnectionsAreOpenedFailNobody(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.PoolSize = 4 })
	load := b.loadWithPauses(30, "postgres", 5*time.Millisecond)
	b.until("clients are at work", func() bool { return load.done.Load() > 200 })
	for range 6 {
		if paused, late := a.desk.Pause(t.Context()); paused != 1 || late != 0 {
			t.Fatalf("%d poolers have paused, %d have not", paused, late)
		}
		count := load.done.Load()
		a.desk.TakeBack()
		b.until("the first client continues", func() bool { return load.done.Load() > count })
	}
	load.end()
	t.Logf("longest wait %v, %d transactions", time.Duration(load.longest.Load()), load.done.Load())
	if failed := load.failed.Load(); failed != 0 {
		t.Errorf("%d transactions have failed: %v", failed, load.first.Load())
	}
}

// An agent says a moment later than its server's clients notice it that the server has died.
func TestClientsWaitAsSoonAsTheServerDiesWhateverItsAgentSays(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL(`CREATE TABLE t (client int, n int); GRANT ALL ON t TO app`)
	b.lead(a, 1)
	b.run(nil)
	load := b.loadWithPauses(30, "postgres", 50*time.Millisecond)
	b.until("clients are at work", func() bool { return load.done.Load() > 100 })
	waiting := func() bool { now, _, _ := b.pooler.waits(); return now == 1 }
	a.Kill()
	b.until("clients wait", waiting)
	time.Sleep(300 * time.Millisecond) // as long as a busy machine needs until the agent has died, too
	if !waiting() {
		t.Error("the word of the agent is taken for the server's")
	}
	a.Start()
	count := load.done.Load()
	b.until("clients continue", func() bool { return load.done.Load() > count+50 })
	load.end()
	t.Logf("longest wait %v, %d transactions, %d failed, %d of them refused", time.Duration(load.longest.Load()), load.done.Load(), load.failed.Load(), load.refused.Load())
	if refused := load.refused.Load(); refused > 10 { // PgBouncer may refuse those who come within a few milliseconds
		t.Errorf("%d of 30 clients were refused", refused)
	}
}

// On a busy machine, the processes of a server that was killed end one after the other.
func TestClientsWaitAsSoonAsAServerRefusesThemThatHasDroppedAConnection(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	watched := ""
	b.until("the server is watched", func() bool {
		watched = a.SQL("SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE application_name = 'howdah_pooler'")
		return watched != "0"
	})
	pid, err := strconv.Atoi(watched)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(a.PID(), syscall.SIGKILL); err != nil { // the others end by themselves
		t.Fatal(err)
	}
	b.until("the connection ends", func() bool {
		_, err := tx.Exec(t.Context(), "SELECT 1")
		return err != nil
	})
	b.until("clients wait", func() bool { now, _, _ := b.pooler.waits(); return now == 1 })
}

func TestClientsGoOnAtOnceWhereTheirConnectionsWereTerminatedAndTheServerLives(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	var open []pgx.Tx
	for range 5 {
		tx, err := b.connect().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
	}
	a.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
	b.until("clients wait", func() bool { _, times, _ := b.pooler.waits(); return times > 0 })
	begin := time.Now()
	b.asked(b.connect())
	if took := time.Since(begin); took > doubt/2 {
		t.Errorf("a client waited for %v", took)
	}
	for _, tx := range open {
		_ = tx.Rollback(t.Context())
	}
}

func transaction(ctx context.Context, conn *pgx.Conn, client, n int) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO t VALUES ($1, $2)", client, n); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

func TestAClientBetweenTransactionsOnlyWaitsWhenThePrimaryDiesAndOneInATransactionGetsOneError(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(nil)
	idle, busy := b.connect(), b.connect()
	b.asked(idle)
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(a.PID(), syscall.SIGSTOP); err != nil { // what a lost node looks like: nothing answers
		t.Fatal(err)
	}
	backends := a.frozen(t)
	defer backends()
	_ = a.api.Close()
	answered := make(chan string, 1)
	go func() {
		var address string
		if err := idle.QueryRow(t.Context(), "SELECT host(inet_server_addr())").Scan(&address); err != nil {
			address = err.Error()
		}
		answered <- address
	}()
	c.SQL("SELECT pg_promote()")
	b.lead(c, 2)
	if got := <-answered; got != c.place.Address {
		t.Errorf("the idle client got %s", got)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a transaction continues that was open on the former primary")
	} else {
		t.Log(err)
	}
}

// frozen stops all processes of a server, until the returned function is called.
func (i *instance) frozen(t *testing.T) func() {
	var pids []int
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, entry := range entries {
		content, err := os.ReadFile(entry)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry))); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(i.PID()) {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return func() {
		for _, pid := range append(pids, i.PID()) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

func TestAHandoverThatNobodyEndsIsOverByItself(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	a.desk.Pause(t.Context())
	begin := time.Now()
	b.asked(conn)
	if took := time.Since(begin); took < pauseLimit/2 || took > pauseLimit+5*time.Second {
		t.Errorf("the client waited for %v", took)
	}
}

func TestAPauseThatNobodyHoldsIsOverByItself(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	if err := b.pooler.bouncer.do(t.Context(), "PAUSE"); err != nil { // as one that was sent just before it was to end
		t.Fatal(err)
	}
	begin := time.Now()
	b.asked(conn)
	if took := time.Since(begin); took > 2*lookTime {
		t.Errorf("the client waited for %v", took)
	}
}

func TestAPoolerEndsItsClientsTransactionsFirst(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.DrainSeconds = 1 })
	conn := b.connect()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.until("the pooler is not ready", func() bool { return b.pooler.Ready() != nil })
	begin := time.Now()
	for time.Since(begin) < 2*time.Second { // beyond the time to drain
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
	b.ended <- nil
}

// A node that is drained may have had the primary and a pooler.
func TestAPoolerThatIsToEndKeepsClientsWaitingInAHandover(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	c := b.instance(1, standby(t, a, b.port))
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.DrainSeconds = 3600 })
	conn := b.connect()
	b.asked(conn)
	b.stop()
	b.until("clients may go", func() bool { return b.pooler.Ready() != nil })
	a.desk.Acknowledge = routing.Patience // on a busy machine it may take more than a second to say so
	if paused, late := a.desk.Pause(t.Context()); paused != 1 || late != 0 {
		t.Errorf("%d poolers have paused, %d have not", paused, late)
	}
	a.desk.Serve(false)
	a.Stop()
	c.SQL("SELECT pg_promote()")
	b.lead(c, 2)
	if got := b.asked(conn); got != c.place.Address {
		t.Errorf("sent to %s", got)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-b.ended; err != nil { // long before the time to drain is over
		t.Error(err)
	}
	b.ended <- nil
}

func TestAChangedConfigurationIsReadWithoutARestart(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(nil)
	conn := b.connect()
	b.asked(conn)
	b.config.PoolSize = 3
	b.config.Parameters = map[string]string{"query_wait_timeout": "7"}
	b.write(b.pooler.ConfigFile)
	b.until("the pool has another size", func() bool {
		rows, err := b.pooler.bouncer.rows(t.Context(), "SHOW CONFIG")
		values := map[string]string{}
		for _, row := range rows {
			values[row["key"]] = row["value"]
		}
		return err == nil && values["default_pool_size"] == "3" && values["query_wait_timeout"] == "7" && values["server_login_retry"] == "0.1"
	})
	b.asked(conn)
}

func TestDatabasesAndUsersHaveLimitsOfTheirOwn(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	a.SQL("CREATE DATABASE \"re-port.2\"")
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) {
		c.Databases = map[string]agentapi.PoolLimits{"shop": {PoolSize: 4, MaxConnections: 7}, "re-port.2": {PoolSize: 2, ReservePoolSize: 1, MaxClientConnections: 1}}
		c.Users = map[string]agentapi.PoolLimits{"app": {MaxConnections: 9, MaxClientConnections: 3}}
	})
	first := b.connect()
	b.asked(first) // who is named still logs in by the database
	if got := b.shown(t, "SHOW DATABASES", "shop", "pool_size", "max_connections"); got != "4 7" {
		t.Errorf("shop has %s", got)
	}
	report := strings.Replace(b.dsn("app", "secret"), "dbname=shop", "dbname=re-port.2", 1)
	b.asked(b.connectTo(report))
	if got := b.shown(t, "SHOW DATABASES", "re-port.2", "pool_size", "reserve_pool_size"); got != "2 1" {
		t.Errorf("re-port.2 has %s", got)
	}
	if got := b.shown(t, "SHOW USERS", "app", "max_user_connections", "max_user_client_connections"); got != "9 3" {
		t.Errorf("app has %s", got)
	}
	if _, err := pgx.Connect(t.Context(), report); err == nil || !strings.Contains(err.Error(), "max_db_client_connections") {
		t.Errorf("a second client of re-port.2: %v", err)
	}
	b.connect()
	if _, err := pgx.Connect(t.Context(), b.dsn("app", "secret")); err == nil || !strings.Contains(err.Error(), "max_user_client_connections") {
		t.Errorf("a fourth client of app: %v", err)
	}
}

// shown are columns of the row of a name in an answer of PgBouncer's console.
func (b *bed) shown(t *testing.T, command, name string, columns ...string) string {
	t.Helper()
	rows, err := b.pooler.bouncer.rows(t.Context(), command)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, row := range rows {
		for _, column := range columns {
			if row["name"] == name {
				values = append(values, row[column])
			}
		}
	}
	return strings.Join(values, " ")
}

func TestAHandoverThatIsTakenBackEndsNoTransaction(t *testing.T) {
	b := newBed(t)
	a := b.instance(0, nil)
	b.roles(a)
	b.lead(a, 1)
	b.run(func(c *agentapi.PoolerConfig) { c.TakeBack = true })
	idle, busy := b.connect(), b.connect()
	b.asked(idle)
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	a.desk.Acknowledge = routing.Patience // on a busy machine it may take more than a second to say so
	if paused, late := a.desk.Pause(t.Context()); paused != 0 || late != 1 {
		t.Errorf("%d poolers have paused, %d have not", paused, late)
	}
	if against := a.desk.Against(); len(against) != 1 || against[0] != "pool-1" {
		t.Errorf("against the handover are %v", against)
	}
	a.desk.TakeBack()
	b.asked(idle)
	if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}
