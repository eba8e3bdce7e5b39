//go:build postgres

package basebackup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/test/testkit/pgtest"
)

// rig is a server on a volume, whose archive_command copies into a folder from which a pump feeds the store.
type rig struct {
	*pgtest.Server
	volume  generation.Volume
	archive string
	store   objstore.Store
	task    agentapi.BackupJob
	writing sync.RWMutex // for reading by who writes rows
}

// backlog is how many files may wait for the store before nobody writes rows: three writers are faster than the pump where
// that has the race detector on it, and what lags by minutes is no archive to back up with.
const backlog = 4

const dataGeneration = "g0123456789"

func newRig(t *testing.T, pg pgtest.Installation) *rig {
	t.Helper()
	return newRigOn(t, pg, generation.Generation{ID: dataGeneration})
}

// newRigOn makes a rig that runs on a copy of the data generation.
func newRigOn(t *testing.T, pg pgtest.Installation, g generation.Generation) *rig {
	t.Helper()
	return newRigIn(t, pg, g, mem.New())
}

// newRigIn makes a rig whose backups go to a store.
func newRigIn(t *testing.T, pg pgtest.Installation, g generation.Generation, store objstore.Store) *rig {
	t.Helper()
	g.SystemIdentifier, g.MajorVersion = "1", pg.Major
	r := &rig{Server: pgtest.Init(t, pgtest.Options{Major: pg.Major}), store: store, archive: pgtest.Dir(t)}
	r.Configure(map[string]string{
		"archive_mode": "on", "archive_command": "cp %p " + r.archive + "/%f.new && mv " + r.archive + "/%f.new " + r.archive + "/%f",
	})
	root := pgtest.Dir(t)
	r.volume = generation.Volume(root)
	pgdata, err := r.volume.Begin(g.ID)
	if err == nil {
		err = os.Rename(r.DataDir, pgdata)
	}
	if err == nil {
		err = r.volume.Complete(g)
	}
	if err == nil {
		err = r.volume.Adopt(g.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.DataDir = pgdata
	pgtest.Own(t, root)
	r.Start()
	system := r.SQL("SELECT system_identifier FROM pg_control_system()")
	r.task = agentapi.BackupJob{
		Object:   agentapi.Object{Kind: "Backup", Resource: "backups", Namespace: "demo", Name: "first"},
		BackupID: "first", Lineage: system + "-" + dataGeneration, Cluster: "shop", ClusterUID: "uid",
		DataGeneration: dataGeneration, ClusterSpec: []byte(`{"version":15}`), Image: "postgres", Host: "shop-0.shop-pods.demo.svc",
	}
	go r.pump(t.Context())
	return r
}

// pump brings what PostgreSQL has archived into the store, as the agent does.
func (r *rig) pump(ctx context.Context) {
	archive, done := wal.New(r.store), map[string]bool{}
	for ticker := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		names := r.archived(done)
		if len(names) > backlog {
			r.writing.Lock()
		}
		for _, name := range names {
			content, err := os.ReadFile(filepath.Join(r.archive, name))
			if err == nil && archive.Put(ctx, r.task.Lineage, name, content, wal.Info{Writer: "test"}) == nil {
				done[name] = true
			}
		}
		if len(names) > backlog {
			r.writing.Unlock()
		}
	}
}

// archived names what is in the folder of the archive and not done.
func (r *rig) archived(done map[string]bool) (names []string) {
	files, _ := os.ReadDir(r.archive)
	for _, file := range files {
		if !done[file.Name()] && !strings.HasSuffix(file.Name(), ".new") {
			names = append(names, file.Name())
		}
	}
	return names
}

func (r *rig) worker(report func(job.Progress)) *Worker {
	return &Worker{
		Volume: r.volume, Store: r.store, Report: report, Tool: "howdah test", WALTimeout: time.Minute,
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			config, err := pgx.ParseConfig(r.DSN())
			if err != nil {
				return nil, err
			}
			config.RuntimeParams = sessionSettings(r.Major)
			return pgx.ConnectConfig(ctx, config)
		},
	}
}

func silent(job.Progress) {}

// write keeps changing rows until it is stopped.
func (r *rig) write(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for n := range 3 {
		conn, err := pgx.Connect(t.Context(), r.DSN())
		if err != nil {
			t.Fatal(err)
		}
		writers.Go(func() {
			defer conn.Close(context.WithoutCancel(ctx))
			for i := 0; ctx.Err() == nil; i++ {
				r.writing.RLock()
				_, err := conn.Exec(context.WithoutCancel(ctx), "UPDATE accounts SET balance = balance + $1, note = repeat(md5(random()::text), 3) WHERE id % 97 = $2", i, (i*3+n)%97)
				r.writing.RUnlock()
				if err != nil && ctx.Err() == nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	return func() { cancel(); writers.Wait() }
}

// awaitArchived waits until everything that was written is in the folder of the archive.
func (r *rig) awaitArchived(t *testing.T) {
	t.Helper()
	last := r.SQL("SELECT pg_walfile_name(pg_switch_wal() - 1)")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(r.archive, last)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s was not archived", last)
		}
	}
}

const contents = "SELECT count(*), sum(balance), md5(string_agg(note, ',' ORDER BY id)) FROM accounts"

func TestABackupTakenUnderWritesRestoresToTheSameContents(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		r := newRig(t, pg)
		r.SQL("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, note text NOT NULL); " +
			"INSERT INTO accounts SELECT n, n, md5(n::text) FROM generate_series(1, 60000) n; CREATE INDEX ON accounts (balance)")
		stop := r.write(t)
		var phases []string
		result, err := r.worker(func(p job.Progress) {
			if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
				phases = append(phases, p.Phase)
			}
		}).Run(t.Context(), r.task)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(phases, " "); got != "Starting Copying AwaitWAL Committing" {
			t.Errorf("phases %s", got)
		}
		if !strings.HasPrefix(result.Version, fmt.Sprint(pg.Major)+".") || result.LogicalBytes < 20<<20 || result.StoredBytes == 0 || result.StopTime.IsZero() {
			t.Errorf("result %+v", result)
		}
		r.awaitArchived(t)
		want := r.SQL(contents)
		r.Stop()
		if got := r.restore(t, pg).SQL(contents); got != want {
			t.Errorf("restored %s, want %s", got, want)
		}
	})
}

// restore starts a server on what the store has, replayed to the end of the archive.
func (r *rig) restore(t *testing.T, pg pgtest.Installation) *pgtest.Server {
	t.Helper()
	return r.restoreWith(t, pg, backup.RestoreOptions{})
}

func (r *rig) restoreWith(t *testing.T, pg pgtest.Installation, opts backup.RestoreOptions) *pgtest.Server {
	t.Helper()
	manifest, err := backup.ReadManifest(t.Context(), r.store, r.task.Lineage, r.task.BackupID)
	if err != nil {
		t.Fatal(err)
	}
	dir := pgtest.Dir(t)
	target := filepath.Join(dir, "pgdata")
	if err := backup.Restore(t.Context(), r.store, manifest, target, opts); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(target, "recovery.signal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pgtest.Own(t, dir)
	for _, place := range opts.Tablespaces {
		pgtest.Own(t, place)
	}
	restored := pgtest.Init(t, pgtest.Options{Major: pg.Major})
	restored.DataDir = target
	restored.Configure(map[string]string{
		"archive_mode": "off", "restore_command": "cp " + r.archive + "/%f %p", "unix_socket_directories": restored.SocketDir,
	})
	restored.Start()
	for deadline := time.Now().Add(time.Minute); restored.SQL("SELECT pg_is_in_recovery()") != "f"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("recovery did not end")
		}
	}
	return restored
}

func TestARepeatedBackupIsTheOneThatIsThere(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		r := newRig(t, pg)
		first, err := r.worker(silent).Run(t.Context(), r.task)
		if err != nil {
			t.Fatal(err)
		}
		r.SQL("CREATE TABLE later AS SELECT 1")
		again, err := r.worker(silent).Run(t.Context(), r.task)
		if err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("got %+v, %v; first %+v", again, err, first)
		}
	})
}

func TestABackupOfACloneIsOneOfItsDataGeneration(t *testing.T) {
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		r := newRigOn(t, pg, generation.Generation{ID: dataGeneration + ".c3", Of: dataGeneration, Origin: generation.Clone})
		if _, err := r.worker(silent).Run(t.Context(), r.task); err != nil {
			t.Error(err)
		}
	})
}

func TestAnotherServerThanTheOneOnTheVolumeIsRefused(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		r := newRig(t, pg)
		other := pgtest.Start(t, pgtest.Options{Major: pg.Major})
		for name, change := range map[string]func(*Worker, *agentapi.BackupJob){
			"another data generation is wanted": func(_ *Worker, task *agentapi.BackupJob) { task.DataGeneration = "g2" },
			"another lineage is wanted":         func(_ *Worker, task *agentapi.BackupJob) { task.Lineage = "7-" + dataGeneration },
			"another server answers": func(w *Worker, task *agentapi.BackupJob) {
				w.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, other.DSN()) }
				task.Lineage = other.SQL("SELECT system_identifier FROM pg_control_system()") + "-" + dataGeneration
			},
		} {
			t.Run(name, func(t *testing.T) {
				w, task := r.worker(silent), r.task
				change(w, &task)
				_, err := w.Run(t.Context(), task)
				failure := &job.Failure{}
				if !errors.As(err, &failure) || failure.Reason != reasonInstanceChanged || failure.Final {
					t.Errorf("got %v", err)
				}
			})
		}
	})
}

func TestADamagedPageEndsTheBackupForGoodAndIsNamed(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		r := newRig(t, pg)
		r.SQL("CREATE TABLE damaged AS SELECT n, md5(n::text) FROM generate_series(1, 5000) n; CHECKPOINT")
		path := r.SQL("SELECT pg_relation_filepath('damaged')")
		file, err := os.OpenFile(filepath.Join(r.DataDir, path), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte{0xff, 0xff}, 3*8192+4000); err != nil {
			t.Fatal(err)
		}
		file.Close()
		_, err = r.worker(silent).Run(t.Context(), r.task)
		failure := &job.Failure{}
		if !errors.As(err, &failure) || failure.Reason != reasonDataCorrupt || !failure.Final || !strings.Contains(err.Error(), "block 3 of "+path) {
			t.Errorf("got %v", err)
		}
		if _, err := backup.ReadHeader(t.Context(), r.store, r.task.Lineage, r.task.BackupID); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("a manifest was left: %v", err)
		}
		r.task.ReportDamage = true
		result, err := r.worker(silent).Run(t.Context(), r.task)
		if err != nil || result.DamagedPages != 1 || len(result.Damaged) != 1 || result.Damaged[0].File != path || result.Damaged[0].Block != 3 {
			t.Errorf("reported: %+v, %v", result, err)
		}
	})
}

func TestAServerThatEndsDuringTheCopyFailsTheBackup(t *testing.T) {
	pgtest.OneVersionIsEnough(t)
	t.Parallel()
	pgtest.Each(t, func(t *testing.T, pg pgtest.Installation) {
		r := newRig(t, pg)
		killed := sync.OnceFunc(r.Kill)
		_, err := r.worker(func(p job.Progress) {
			if p.Phase == string(backup.Copying) {
				killed()
			}
		}).Run(t.Context(), r.task)
		failure := &job.Failure{}
		if err == nil || errors.As(err, &failure) && failure.Final {
			t.Errorf("got %v", err)
		}
		if _, err := backup.ReadHeader(t.Context(), r.store, r.task.Lineage, r.task.BackupID); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("a manifest was left: %v", err)
		}
	})
}
