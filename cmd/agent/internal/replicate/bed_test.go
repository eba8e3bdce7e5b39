//go:build postgres

package replicate

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// walProgram is archive_command and restore_command.
const walProgram = "howdah.dev/howdah/cmd/wal"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() == 0 {
		os.Exit(pgtest.AsPostgres(walProgram))
	}
	if err := postmaster.AdoptOrphans(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go postmaster.Reap(context.Background())
	os.Exit(m.Run())
}

const wanted = "g1"

// bed is a cluster without agents: the test decides what each instance is.
type bed struct {
	t      *testing.T
	pg     pgtest.Installation
	dir    string
	ca     *authority.Authority
	config agentapi.Config
	nodes  []*node
}

// node is one instance.
type node struct {
	Instance
	bed    *bed
	local  local.Server
	server *postmaster.Server
	lock   *os.File
	behind bool // it reads the archive

	delaySeconds int64
}

func newBed(t *testing.T, pg pgtest.Installation, nodes int) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "bed") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{t: t, pg: pg, dir: dir, config: agentapi.Config{
		Cluster: "shop", MajorVersion: pg.Major, DataGeneration: wanted, Instances: nodes,
		Parameters: map[string]string{"shared_buffers": "16MB", "max_connections": "20", "checkpoint_timeout": "1h"},
	}}
	b.ca = authority.New(t)
	for i := range nodes {
		b.nodes = append(b.nodes, b.newNode(fmt.Sprintf("shop-%d", i)))
	}
	return b
}

func (b *bed) newNode(pod string) *node {
	b.t.Helper()
	dir := filepath.Join(b.dir, pod)
	n := &node{bed: b, Instance: Instance{
		Pod: pod, Volume: generation.Volume(filepath.Join(dir, "volume")), BinDir: b.pg.BinDir, Major: b.pg.Major, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(b.t.Output(), nil)).With("pod", pod),
		Paths: settings.Paths{
			SocketDir: filepath.Join(dir, "s"), TLSDir: filepath.Join(dir, "tls"), PeerTLSDir: filepath.Join(dir, "peer"),
			WAL: "/bin/true", Port: pgtest.Port(b.t),
		},
	}}
	for _, path := range []string{string(n.Volume), n.Paths.SocketDir} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			b.t.Fatal(err)
		}
	}
	b.ca.Fill(b.t, n.Paths.TLSDir, "server", host(pod))
	b.ca.Fill(b.t, n.Paths.PeerTLSDir, postgres.RoleReplication)
	n.local = local.Server{SocketDir: n.Paths.SocketDir, Port: n.Paths.Port}
	b.t.Cleanup(n.kill)
	return n
}

func host(pod string) string { return pod + ".shop-pods.demo.svc" }

func (n *node) upstream() settings.Upstream {
	return settings.Upstream{Pod: n.Pod, Host: host(n.Pod), Address: "127.0.0.1", Port: n.Paths.Port}
}

// found makes the first node a primary of a new cluster, with some data.
func (b *bed) found() *node {
	b.t.Helper()
	n := b.nodes[0]
	worker := initialize.Worker{Volume: n.Volume, Run: pgtest.Exec, Now: time.Now}
	if _, err := worker.Init(b.t.Context(), agentapi.InitJob{DataGeneration: wanted, MajorVersion: b.pg.Major}); err != nil {
		b.t.Fatal(err)
	}
	n.start(nil)
	if err := roles.Ensure(b.t.Context(), n.local, roles.Wanted{Major: b.pg.Major, Database: "shop", Owner: "app", Password: "x"}); err != nil {
		b.t.Fatal(err)
	}
	n.sql("CREATE TABLE public.t (i int PRIMARY KEY, note text)")
	n.insert(1000)
	return n
}

// replicated founds a cluster whose first node is the primary, which the others follow.
func replicated(t *testing.T, pg pgtest.Installation, count int) []*node {
	t.Helper()
	b := newBed(t, pg, count)
	primary := b.found()
	primary.keepSlots(nil)
	for _, n := range b.nodes[1:] {
		n.join(primary)
	}
	return b.nodes
}

// start starts the server on the node's copy: as a primary, or as a replica of another node. The files are as the agent
// would make them.
func (n *node) start(of *node) {
	n.bed.t.Helper()
	g, err := n.Volume.Resolve(wanted)
	if err != nil {
		n.bed.t.Fatal(err)
	}
	n.startCopy(g, of)
}

func (n *node) startCopy(g generation.Generation, of *node) {
	n.bed.t.Helper()
	t := n.bed.t
	n.Paths.Dir = filepath.Join(n.Volume.Dir(g.ID), "conf")
	if err := os.MkdirAll(n.Paths.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files := n.configure(of)
	lock, err := n.Volume.Lock(g.ID)
	if err != nil {
		t.Fatal(err)
	}
	n.lock = lock
	n.server, err = postmaster.Start(postmaster.Spec{
		BinDir: n.BinDir, PGData: n.Volume.PGData(g.ID), Args: files.Arguments(n.Paths), Lock: lock, Log: n.Log,
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, n.Pod+" to accept connections", func() bool {
		select {
		case <-n.server.Done():
			t.Fatalf("%s: %s", n.Pod, n.server.Complaint())
		default:
		}
		return n.server.Accepting()
	})
}

// configure writes the files of a primary, or of a replica of another node.
func (n *node) configure(of *node) settings.Files {
	n.bed.t.Helper()
	replication := settings.Replication{Pod: n.Pod, Slot: SlotName(n.Pod), VolumeBytes: 4 << 30, FromArchive: n.behind, DelaySeconds: n.delaySeconds}
	if of != nil {
		upstream := of.upstream()
		replication.Upstream = &upstream
	}
	files, err := settings.Render(n.bed.config, n.bed.pg.Major, n.Paths, replication)
	if err == nil {
		err = files.Write(n.Paths)
	}
	if err != nil {
		n.bed.t.Fatal(err)
	}
	return files
}

// follow makes a running replica follow another node.
func (n *node) follow(of *node) {
	n.bed.t.Helper()
	n.configure(of)
	if err := n.server.Reload(); err != nil {
		n.bed.t.Fatal(err)
	}
}

// stop shuts the server down in order.
func (n *node) stop() {
	n.bed.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := n.server.Stop(ctx); err != nil {
		n.bed.t.Fatalf("%s: %v", n.Pod, err)
	}
	n.gone()
}

// kill ends the server as the kernel would.
func (n *node) kill() {
	if n.server == nil {
		return
	}
	_ = syscall.Kill(n.server.PID(), syscall.SIGKILL)
	if err := n.server.CleanUp(); err != nil {
		n.bed.t.Error(err)
	}
	n.gone()
}

func (n *node) gone() {
	n.lock.Close()
	n.server, n.lock = nil, nil
}

func (n *node) with(do func(*pgx.Conn) error) {
	n.bed.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := n.local.With(ctx, "postgres", do); err != nil {
		n.bed.t.Fatalf("%s: %v", n.Pod, err)
	}
}

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(4 * time.Minute)
	for pause := 10 * time.Millisecond; !holds(); pause = min(pause*5/4, 200*time.Millisecond) { // a look may start a backend
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-time.After(pause):
		}
	}
}
