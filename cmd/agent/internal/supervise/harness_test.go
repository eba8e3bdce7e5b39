//go:build postgres

package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// pod is what the agent sees of a pod, and the agent in it while it runs.
type pod struct {
	Paths
	t      *testing.T
	config agentapi.Config
	store  objstore.Store
	grace  time.Duration
	beat   func() error  // of the disk; nil: as in a pod
	crash  time.Duration // that it may take to come back; 0: as in a pod
	still  time.Duration // that a promotion may replay nothing; 0: as in a pod
	ca     *authority.Authority
	checks time.Duration // between deep ones; 0: as in a pod
	// service leads to the primary; nil: there is none.
	service func(agentapi.Config) *settings.Upstream
	log     *syncBuffer

	name   string
	pair   *pair // nil: the pod is alone
	agent  *Supervisor
	public *recorder
	stop   context.CancelFunc
	ended  chan error
}

// newPod makes a pod with an initialised volume. The parameters keep the server small.
func newPod(t *testing.T) *pod {
	t.Helper()
	return newPodOn(t, "")
}

// newPodOn makes one on a volume; empty: on a folder of its own.
func newPodOn(t *testing.T, volume string) *pod {
	t.Helper()
	p := newEmptyPod(t, volume)
	initialized.Do(func() { initialized.volume = p.keepInitialized() })
	if out, err := exec.Command("cp", "-a", initialized.volume+"/.", string(p.Volume)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

// initialized is a volume with data as the Job that initializes it leaves it. It is made once, which takes some seconds of processor time, and
// copied by each pod. It goes with the folder of this process (pgtest.AsPostgres).
var initialized struct {
	sync.Once
	volume string
}

func (p *pod) keepInitialized() string {
	p.t.Helper()
	dir, err := os.MkdirTemp("", "initialized")
	if err != nil {
		p.t.Fatal(err)
	}
	own := p.Volume
	defer func() { p.Volume = own }()
	p.Volume = generation.Volume(dir)
	p.init("g1")
	return dir
}

// newEmptyPod makes one without data.
func newEmptyPod(t *testing.T, volume string) *pod {
	t.Helper()
	installed := pgtest.Installed(t)
	dir, err := os.MkdirTemp("", "pod") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &pod{t: t, name: "shop-0", log: &syncBuffer{}, ca: authority.New(t), Paths: Paths{
		Volume: generation.Volume(filepath.Join(dir, "volume")), RunDir: filepath.Join(dir, "run"), SocketDir: filepath.Join(dir, "s"),
		ConfigFile: filepath.Join(dir, "agent.json"), TLSDir: filepath.Join(dir, "tls"), AppDir: filepath.Join(dir, "app"),
		PeerTLSDir: filepath.Join(dir, "peer"), SuperuserDir: filepath.Join(dir, "super"), WAL: pgtest.Beside(t, walProgram), Port: pgtest.Port(t),
	}}
	if volume != "" {
		p.Volume = generation.Volume(volume)
	}
	for _, path := range []string{string(p.Volume), p.RunDir, p.SocketDir, p.AppDir, p.SuperuserDir} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.config = agentapi.Config{
		Cluster: "shop", Namespace: "demo", ClusterUID: "uid-1", DataGeneration: "g1", MajorVersion: installed[len(installed)-1].Major,
		Database: "shop", Owner: "app", EndpointSlice: "shop-rw",
		Parameters: map[string]string{"shared_buffers": "16MB", "max_connections": "20"},
	}
	p.write(filepath.Join(p.AppDir, "password"), "first")
	p.issueServer()
	p.configure(p.config)
	return p
}

// issueServer gives its server a certificate.
func (p *pod) issueServer() {
	p.t.Helper()
	p.ca.Fill(p.t, p.TLSDir, "localhost", "localhost", "shop-0.shop-pods", "shop-1.shop-pods")
}

func (p *pod) init(id string) initialize.Result {
	p.t.Helper()
	worker := initialize.Worker{Volume: p.Volume, Run: pgtest.Exec, Now: time.Now}
	result, err := worker.Init(p.t.Context(), agentapi.InitJob{DataGeneration: id, MajorVersion: p.config.MajorVersion})
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

func (p *pod) write(path, content string) {
	p.t.Helper()
	if err := generation.WriteFile(path, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// configure writes agent.json.
func (p *pod) configure(config agentapi.Config) {
	p.t.Helper()
	p.config = config
	raw, err := json.Marshal(config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(p.ConfigFile, string(raw))
}

// with is the configuration with other parameters.
func (p *pod) with(parameters map[string]string) agentapi.Config {
	config := p.config
	config.Parameters = map[string]string{}
	for name, value := range p.config.Parameters {
		config.Parameters[name] = value
	}
	for name, value := range parameters {
		config.Parameters[name] = value
	}
	return config
}

// start starts the agent. It ends with the test.
func (p *pod) start() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.public = &recorder{}
	options := Options{
		Paths: p.Paths, Pod: p.name, Grace: p.grace, CrashPatience: p.crash, PromotePatience: p.still, Beat: p.beat, Service: p.service, DeepChecks: p.checks, Log: slog.New(slog.NewJSONHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OpenStore:     func(context.Context, objstore.Config) (objstore.Store, error) { return p.store, nil },
		Publish:       func(agentapi.Config, func() bool) Publisher { return p.public },
		ArchiveLimits: archive.Limits{Patience: time.Minute, LastPatience: 5 * time.Second, Pause: 100 * time.Millisecond},
	}
	if p.pair != nil {
		options.PodUID, options.Address = "uid of "+p.name, "127.0.0.1"
		options.Kubernetes, options.Peers, options.PeerPort = p.pair.kubernetes(p), p.pair, p.pair.port
		options.Datagrams, options.WordPort = p.pair.datagrams(p)
	}
	p.agent = New(options)
	p.stop, p.ended = cancel, make(chan error, 1)
	go func() { p.ended <- p.agent.Run(ctx) }()
	p.t.Cleanup(func() { p.terminate(60 * time.Second) })
}

// run starts the agent and waits until clients may come.
func (p *pod) run() {
	p.t.Helper()
	p.start()
	p.await("serve", func() bool { return p.agent.Ready(p.t.Context()) == nil && p.public.ready() })
}

// terminate is SIGTERM; it returns how the agent ended.
func (p *pod) terminate(within time.Duration) error {
	p.t.Helper()
	if p.stop == nil {
		return nil
	}
	p.stop()
	p.stop = nil
	select {
	case err := <-p.ended:
		return err
	case <-time.After(within):
		p.t.Fatalf("the agent did not end within %v\n%s", within, p.log)
		return nil
	}
}

// await waits for a condition, and shows the log if it doesn't come.
func (p *pod) await(what string, holds func() bool) {
	p.t.Helper()
	p.awaitFor(4*time.Minute, what, holds) // a clone took 56 s beside eleven other tests on two processors
}

func (p *pod) awaitFor(limit time.Duration, what string, holds func() bool) {
	p.t.Helper()
	deadline := time.After(limit)
	for pause := 10 * time.Millisecond; !holds(); pause = min(pause*5/4, 200*time.Millisecond) { // a look may start a backend
		select {
		case <-deadline:
			p.t.Fatalf("the agent does not %s: %+v\n%s", what, p.agent.Status(), p.log)
		case <-time.After(pause):
		}
	}
}

func (p *pod) awaitStatus(what string, holds func(agentapi.Status) bool) agentapi.Status {
	p.t.Helper()
	status := agentapi.Status{}
	p.await(what, func() bool {
		status = p.agent.Status()
		return holds(status)
	})
	return status
}

// sql asks the server as the superuser and returns the first column of the first row as text.
func (p *pod) sql(statement string) string {
	p.t.Helper()
	var text string
	err := p.agent.server.With(p.t.Context(), "postgres", func(conn *pgx.Conn) error {
		rows, err := conn.Query(p.t.Context(), statement)
		if err != nil {
			return err
		}
		values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			values, err := row.Values()
			if err != nil || len(values) == 0 {
				return "", err
			}
			text, _ := values[0].(string)
			return text, nil
		})
		if len(values) > 0 {
			text = values[0]
		}
		return err
	})
	if err != nil {
		p.t.Fatalf("%s: %v", statement, err)
	}
	return text
}

// pid is the postmaster's, as its own file says.
func (p *pod) pid() int {
	p.t.Helper()
	pid, err := p.readPID()
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

func (p *pod) readPID() (int, error) {
	id, err := p.Volume.Current()
	if err != nil {
		return 0, err
	}
	content, err := os.ReadFile(filepath.Join(p.Volume.PGData(id), "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	pid, err := postgres.ParsePostmasterPID(content)
	return pid.PID, err
}

// current is the copy that the volume points at.
func (p *pod) current() string {
	p.t.Helper()
	id, err := p.Volume.Current()
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// cameBack says whether another server than that one is ready. In between there is a moment without the file of either.
func (p *pod) cameBack(before int) bool {
	pid, err := p.readPID()
	return err == nil && pid != before && p.agent.Ready(p.t.Context()) == nil
}

// connect logs in over TCP and TLS; who has a certificate of that common name brings it.
func (p *pod) connect(user, password, database, certificate string) (*pgx.Conn, error) {
	p.t.Helper()
	dsn := []string{"host=localhost", "user=" + user, "dbname=" + database, "sslmode=verify-full", "sslrootcert=" + filepath.Join(p.TLSDir, "ca.crt"), "connect_timeout=5"}
	if password != "" {
		dsn = append(dsn, "password="+password)
	}
	if certificate != "" {
		dir := p.t.TempDir()
		p.ca.Fill(p.t, dir, certificate)
		dsn = append(dsn, "sslcert="+filepath.Join(dir, "tls.crt"), "sslkey="+filepath.Join(dir, "tls.key"))
	}
	config, err := pgx.ParseConfig(strings.Join(dsn, " "))
	if err != nil {
		p.t.Fatal(err)
	}
	config.Port = uint16(p.Port)
	conn, err := pgx.ConnectConfig(p.t.Context(), config)
	if err == nil {
		p.t.Cleanup(func() { conn.Close(context.Background()) })
	}
	return conn, err
}

// recorder keeps what clients were told.
type recorder struct {
	mu   sync.Mutex
	told []bool
	here bool // whether clients are to come here
	left int  // how often they were left to another primary
	led  bool // whether they were to come here since that was asked last
	late bool // whether it is a delayed replica
	ends []agentapi.Shutdown
}

func (r *recorder) Set(ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told, r.here, r.led = append(r.told, ready), ready, r.led || ready
}

func (r *recorder) Withdraw(context.Context) { r.Set(false) }

// Vacate implements Publisher.
func (r *recorder) Vacate(context.Context) bool {
	r.Set(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	led := r.led
	r.led = false
	return led
}

// Ended implements Publisher.
func (r *recorder) Ended(_ context.Context, how agentapi.Shutdown) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, how)
}

// Role implements Publisher.
func (r *recorder) Role(_ string, delayed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = delayed
}

func (r *recorder) delayed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late
}

func (r *recorder) Yield() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.here = false
	r.left++
}

func (r *recorder) yielded() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

func (r *recorder) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.here
}

func (r *recorder) all() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
