//go:build postgres

package clonejob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/initialize"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/local"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/roles"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/authority"
	"howdah.dev/howdah/test/testkit/pgtest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestMain(m *testing.M) {
	if os.Getuid() == 0 {
		os.Exit(pgtest.AsPostgres())
	}
	os.Exit(m.Run())
}

const hba = "local all,replication all trust\nhostssl replication,postgres howdah_replication 127.0.0.0/8 cert\n"

// lab is a cluster of a primary and a replica, which is to be cloned.
type lab struct {
	t                *testing.T
	primary, replica *pgtest.Server
	hosts            []string // of the replica and of the primary
	secrets          string
	volume           generation.Volume
	patience         Patience
	phases           []string
	report           func(job.Progress)
	archived         string // names of files, by the server of the last ask
}

func newLab(t *testing.T) *lab {
	t.Helper()
	port := pgtest.Port(t)
	l := &lab{t: t, secrets: t.TempDir(), volume: generation.Volume(t.TempDir()), report: func(job.Progress) {}}
	l.patience = Patience{Every: 100 * time.Millisecond, Away: time.Minute, Settle: 300 * time.Millisecond}
	net := fmt.Sprintf("127.%d.%d.", port>>8, port&255) // nobody else's
	l.hosts = []string{net + "1", net + "2"}
	dir, ca := pgtest.Dir(t), authority.New(t)
	ca.Fill(t, dir, "server", l.hosts...)
	ca.Fill(t, filepath.Join(l.secrets, "shop-instance"), postgres.RoleReplication)
	pgtest.Own(t, dir)
	params := func(host string) map[string]string {
		return map[string]string{
			"listen_addresses": host, "ssl": "on", "ssl_ca_file": filepath.Join(dir, "ca.crt"),
			"ssl_cert_file": filepath.Join(dir, "tls.crt"), "ssl_key_file": filepath.Join(dir, "tls.key"),
		}
	}
	l.primary = pgtest.Start(t, pgtest.Options{HBA: hba, Params: params(l.hosts[1])})
	wanted := roles.Wanted{Major: l.primary.Major, Database: "shop", Owner: "app", Password: "of the source"}
	if err := roles.Ensure(t.Context(), local.Server{SocketDir: l.primary.SocketDir, Port: 5432}, wanted); err != nil {
		t.Fatal(err)
	}
	l.primary.SQL(`CREATE TABLE t AS SELECT g AS i, md5(g::text) AS note FROM generate_series(1, 20000) g;
		CREATE SUBSCRIPTION sub CONNECTION 'host=/nowhere' PUBLICATION p WITH (connect = false)`)
	l.primary.SQL("ALTER SUBSCRIPTION sub ENABLE")
	l.replica = pgtest.Init(t, pgtest.Options{HBA: hba})
	if err := os.RemoveAll(l.replica.DataDir); err != nil {
		t.Fatal(err)
	}
	l.replica.Run(t, "pg_basebackup", "--pgdata="+l.replica.DataDir, "--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--host="+l.primary.SocketDir, "--username=postgres")
	own := params(l.hosts[0])
	own["unix_socket_directories"] = l.replica.SocketDir
	l.replica.Configure(own)
	l.replica.Start()
	l.replica.SQL("ALTER SYSTEM SET shared_buffers = '900GB'")
	l.replica.SQL("ALTER SYSTEM SET work_mem = '7MB'")
	return l
}

func (l *lab) task(id string) agentapi.InitJob {
	return agentapi.InitJob{DataGeneration: id, MajorVersion: l.primary.Major, Clone: &agentapi.CloneJob{
		Cluster: "shop", Database: "shop", Owner: "app", SystemIdentifier: strings.TrimSpace(l.primary.SQL("SELECT system_identifier FROM pg_control_system()")), Hosts: l.hosts,
		Secret: "shop-instance", CA: "ca.crt", Certificate: "tls.crt", Key: "tls.key",
	}}
}

func (l *lab) clone(ctx context.Context, task agentapi.InitJob) error {
	_, err := initialize.Worker{
		Volume: l.volume, Run: postgres.Exec, Now: time.Now, Secrets: l.secrets,
		Reports: func(context.Context, agentapi.Object) (initialize.Reports, error) {
			return initialize.Reports{Close: func() {}, Progress: func(p job.Progress) {
				l.phases = append(l.phases, p.Phase+" "+p.Message)
				l.report(p)
			}}, nil
		},
		Clone: func(ctx context.Context, wanted initialize.Clone) error { return Worker{wanted, l.patience}.Make(ctx) },
	}.Init(ctx, task)
	return err
}

// ask runs a server on a clone, which archives.
func (l *lab) ask(id, query string, before ...string) string {
	l.t.Helper()
	sockets := pgtest.Dir(l.t)
	lock, err := l.volume.Lock(id)
	if err != nil {
		l.t.Fatal(err)
	}
	defer lock.Close()
	server, err := postmaster.Start(postmaster.Spec{
		BinDir: l.primary.BinDir, PGData: l.volume.PGData(id), Lock: lock, Log: slog.New(slog.DiscardHandler),
		Args: []string{"-c", "listen_addresses=", "-c", "unix_socket_directories=" + sockets, "-c", "port=5432", "-c", "ssl=off", "-c", "shared_buffers=16MB",
			"-c", "archive_mode=on", "-c", "archive_command=echo %f >>" + filepath.Join(sockets, "archived")},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(l.t.Context()); err != nil {
			l.t.Error(err)
		}
		archived, _ := os.ReadFile(filepath.Join(sockets, "archived"))
		l.archived = string(archived)
	}()
	for !server.Accepting() {
		select {
		case <-server.Done():
			l.t.Fatal(server.Complaint())
		case <-time.After(20 * time.Millisecond):
		}
	}
	answer := ""
	err = local.Server{SocketDir: sockets, Port: 5432}.With(l.t.Context(), "postgres", func(conn *pgx.Conn) error {
		for _, statement := range before {
			if _, err := conn.Exec(l.t.Context(), statement); err != nil {
				return err
			}
		}
		return conn.QueryRow(l.t.Context(), query).Scan(&answer)
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return answer
}

const contents = `SELECT (SELECT count(*) || md5(string_agg(note, ',' ORDER BY i)) FROM public.t)`

func TestARunningClusterIsClonedFromItsReplicaAndNothingIsLeftThere(t *testing.T) {
	subset.OneIn(t, 3)
	l := newLab(t)
	want := strings.TrimSpace(l.primary.SQL(contents))
	other := l.task("foreign")
	other.Clone.SystemIdentifier = "7"
	failure := &job.Failure{}
	if err := l.clone(t.Context(), other); !errors.As(err, &failure) || !failure.Final || failure.Reason != ReasonSourceChanged {
		t.Fatalf("a clone of other data: %v", err)
	}

	if err := l.clone(t.Context(), l.task("first")); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(l.phases, "\n"); !strings.Contains(said, "From a replica of PostgresCluster shop.") || !strings.Contains(said, phaseFinishing) {
		t.Errorf("progress: %s", said)
	}
	notes, _ := filepath.Glob(filepath.Join(l.volume.PGData("first"), "pg_wal", "archive_status", "*.ready"))
	if len(notes) != 1 || filepath.Base(notes[0]) != "00000002.history.ready" {
		t.Errorf("to be archived: %v", notes)
	}
	got := l.ask("first", `SELECT concat_ws(' ', (`+contents+`), pg_is_in_recovery(), (SELECT timeline_id FROM pg_control_checkpoint()), current_setting('work_mem'),
		(SELECT subenabled FROM pg_subscription), (SELECT count(*) FROM pg_replication_slots), current_setting('primary_conninfo') = '')`,
		"CHECKPOINT", "SELECT pg_switch_wal()", "CHECKPOINT")
	if got != want+" f 2 7MB f 0 t" {
		t.Errorf("the clone has %q, want %q", got, want)
	}
	if !strings.Contains(l.archived, "00000002.history\n") || !strings.Contains(l.archived, "000000020000") || strings.Contains("\n"+l.archived, "\n00000001") {
		t.Errorf("the clone has archived %q", l.archived)
	}
	if g, err := l.volume.Read("first"); err != nil || g.Origin != generation.Cluster || g.From != "shop" || g.Of != "" {
		t.Errorf("%+v, %v", g, err)
	}

	wrong := l.task("wrong")
	wrong.Clone.Database, wrong.Clone.Owner = "app", "postgres"
	if err := l.clone(t.Context(), wrong); !errors.As(err, &failure) || !failure.Final || failure.Reason != ReasonSourceMismatch ||
		!strings.Contains(err.Error(), "no database app, which spec.bootstrap.clone.database names: write one of these: shop.") || !strings.Contains(err.Error(), ": app.") {
		t.Errorf("a clone without the application: %v", err)
	}

	l.replica.Stop()
	l.primary.SQL("INSERT INTO t VALUES (20001, 'late')")
	second := l.task("second")
	l.primary.Stop()
	l.phases = nil
	l.report = func(p job.Progress) {
		if p.Phase == phaseConnecting && len(l.phases) == 2 {
			l.primary.Start()
		}
	}
	if err := l.clone(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(l.phases, "\n"); !strings.Contains(said, "Connecting PostgresCluster shop is asked again") || !strings.Contains(said, "From the primary of PostgresCluster shop.") {
		t.Errorf("progress: %s", said)
	}
	if got, want := l.ask("second", contents), strings.TrimSpace(l.primary.SQL(contents)); got != want {
		t.Errorf("the clone of the primary has %q, want %q", got, want)
	}
	if left := strings.TrimSpace(l.primary.SQL("SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_stat_activity WHERE usename = 'howdah_replication')")); left != "0" {
		t.Errorf("%s slots and sessions are left on the source", left)
	}
	l.primary.Stop()
	l.patience.Away, l.report = 0, func(job.Progress) {}
	if err := l.clone(t.Context(), agentapi.InitJob{DataGeneration: "third", MajorVersion: l.primary.Major, Clone: other.Clone}); !errors.As(err, &failure) || failure.Reason != ReasonSourceUnreachable || failure.Final {
		t.Errorf("a source that is down: %v", err)
	}
}
