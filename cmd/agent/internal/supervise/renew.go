package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/cmd/agent/internal/settings"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// receive takes in new inputs and says whether they are to be acted on.
func (r *runner) receive(in inputs) bool {
	if in.err != nil {
		r.Log.Warn("new configuration is passed over", "error", in.err)
		r.set(func(status *agentapi.Status) { status.ConfigError, status.ConfigErrorHash = in.err.Error(), "" })
		return false
	}
	if in.config.DataGeneration != r.wanted {
		r.Log.Warn("another data generation is wanted; it is adopted when the pod starts anew", "generation", in.config.DataGeneration)
		return false
	}
	before := r.inputs
	r.inputs = in
	r.configured(in.config)
	r.member.Configure(electorate(in.config), in.config.Lease)
	r.guardWith()
	if r.adopted == nil {
		return true
	}
	if in.tls != before.tls {
		r.renewTLS()
	}
	if !sameArchive(in.config, before.config) {
		r.setArchive()
	}
	if in.password != before.password || in.super != before.super || in.config.Database != before.config.Database || in.config.Owner != before.config.Owner {
		wake(r.credentials)
	}
	if in.config.Declared.Hash() != before.config.Declared.Hash() || !maps.Equal(in.declared, before.declared) {
		wake(r.declarations)
	}
	return true
}

// wake lets who waits on a channel go on; he looks at what is there then.
func wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// renew makes the running server follow new inputs.
func (r *runner) renew(ctx context.Context, server *postmaster.Server, in inputs) {
	certificates := r.inputs.tls
	if !r.receive(in) {
		return
	}
	if in.tls != certificates {
		if err := server.Reload(); err != nil {
			r.Log.Error("PostgreSQL can't be told of its new certificate", "error", err)
		}
	}
	r.configure(ctx, server)
}

func (r *runner) renewTLS() {
	if err := copyCertificates(r.Paths, r.adopted.paths); err != nil {
		r.Log.Error("the new certificate is not used", "error", err)
		return
	}
	r.Log.Info("the server's certificate has changed")
}

// configure applies the wanted configuration to the running server, unless PostgreSQL refuses it.
func (r *runner) configure(ctx context.Context, server *postmaster.Server) {
	wanted := r.inputs.config
	if wanted.Hash() == r.effect.Hash() {
		r.take(wanted, r.files)
		return
	}
	files, err := settings.Render(wanted, r.adopted.generation.MajorVersion, r.adopted.paths, r.replication)
	if err == nil && (files.Conf != r.files.Conf || files.HBA != r.files.HBA) {
		if err = r.check(ctx, files, wanted); err == nil {
			err = r.reload(ctx, server, files)
		}
	}
	if err == nil {
		err = r.lookForPending(ctx) // before the configuration is said to be in effect: it is not, while that is unknown
	}
	r.unchecked = false
	switch {
	case err == nil:
		r.take(wanted, files)
		r.Log.Info("applied the configuration", "config", wanted.Hash())
		if len(r.Status().PendingRestart) == 0 {
			r.keepGood() // it works
		}
	case isRefusal(err):
		r.refuse(wanted, err)
	default:
		r.unchecked = true
		r.Log.Warn("the configuration can't be applied yet", "error", err)
	}
}

// reload has the server read new files, and returns when it has. A server that doesn't answer gets them all the same.
func (r *runner) reload(ctx context.Context, server *postmaster.Server, files settings.Files) error {
	before, err := r.loadTime(ctx)
	if err != nil {
		return err
	}
	if err := files.Write(r.adopted.paths); err != nil {
		return err
	}
	if err := r.tryHBA(ctx, files); err != nil {
		return errors.Join(err, r.files.Write(r.adopted.paths))
	}
	if err := server.Reload(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if now, err := r.loadTime(ctx); err == nil && now.After(before) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL has not read its configuration: %w", ctx.Err())
		case <-time.After(startPoll):
		}
	}
}

// loadTime is when the postmaster read its configuration; a new session inherits it.
func (r *runner) loadTime(ctx context.Context) (at time.Time, err error) {
	err = r.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_catalog.pg_conf_load_time()").Scan(&at)
	})
	return at, err
}

// lookForPending notes which parameters wait for a restart.
func (r *runner) lookForPending(ctx context.Context) error {
	var pending []string
	err := r.server.With(ctx, "postgres", func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT name FROM pg_catalog.pg_settings WHERE pending_restart ORDER BY name")
		if err != nil {
			return err
		}
		pending, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("which parameters wait for a restart: %w", err)
	}
	r.set(func(status *agentapi.Status) { status.PendingRestart = pending })
	if len(pending) > 0 {
		r.Log.Info("parameters wait for a restart", "parameters", strings.Join(pending, ", "))
	}
	return nil
}

func sameArchive(a, b agentapi.Config) bool {
	return agentapi.Config{Archive: a.Archive}.Hash() == agentapi.Config{Archive: b.Archive}.Hash()
}

// storeTime bounds how long a driver may take to open a store, which doesn't connect.
const storeTime = 20 * time.Second

// openArchive makes the archiver of the adopted copy.
func (r *runner) openArchive() error {
	archiver := archive.New(filepath.Join(r.adopted.pgdata, "pg_wal"), r.Log, time.Now, r.ArchiveLimits)
	unsocket, err := r.serveArchive(archiver)
	if err != nil {
		archiver.Close()
		return err
	}
	r.archiver, r.unsocket = archiver, unsocket
	r.setArchiver(archiver)
	r.setArchive()
	return nil
}

// setArchive tells the archiver where WAL goes.
func (r *runner) setArchive() {
	config := r.inputs.config
	if config.Archive == nil {
		r.archiver.SetTarget(nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	store, err := r.OpenStore(ctx, config.Archive.Repository)
	g := r.adopted.generation
	r.archiver.SetTarget(&archive.Target{
		Store: store, Err: err, Memory: archiveMemory(config.MemoryBytes), Timeout: postgres.ArchiveTimeout(config.Parameters),
		ShipEvery: shipEvery(config),
		Writer:    fmt.Sprintf("pod %s of cluster %s/%s (UID %s)", r.Pod, config.Namespace, config.Cluster, config.ClusterUID),
		Claim: layout.Lineage{
			Lineage:          layout.LineageName(g.SystemIdentifier, g.DataGeneration()),
			Writer:           layout.Writer{UID: config.ClusterUID, Namespace: config.Namespace, Name: config.Cluster},
			SystemIdentifier: g.SystemIdentifier, Generation: g.DataGeneration(), SegmentSize: r.adopted.segSize, PGMajor: g.MajorVersion,
			Created: time.Now().UTC(),
		},
	})
	r.Log.Info("WAL goes to the archive", "lineage", layout.LineageName(g.SystemIdentifier, g.DataGeneration()), "bucket", config.Archive.Repository.Bucket)
}

// archiveMemory is how much WAL the archiver may hold in a container of this size, in bytes. Of a segment
// on its way to the store only what it is compressed to is held.
func archiveMemory(container int64) int64 {
	const most = 64 << 20
	if container <= 0 {
		return most
	}
	return min(most, container/16)
}

// serveArchive answers archive_command until the returned function is called.
func (s *Supervisor) serveArchive(archiver *archive.Archiver) (stop func(), err error) {
	var listener net.Listener
	if listener, err = walsocket.Listen(s.SocketDir); err != nil {
		return nil, fmt.Errorf("local socket: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the server, which archives to its end
	go func() {
		if err := walsocket.Serve(ctx, listener, archiver); err != nil {
			s.Log.Error("archive_command is not answered any more", "error", err)
		}
	}()
	return cancel, nil
}

func writeFile(path string, content []byte) error { return generation.WriteFile(path, content, 0o600) }
