package supervise

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/archive"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/pkg/walsocket"
)

// walArchiving archives the WAL of one copy. Only the loop uses it; the archiver in it is safe for everybody.
type walArchiving struct {
	*instance
	copy     *adopted
	archiver *archive.Archiver
	unsocket func() // ends its socket
}

// storeTime bounds how long a driver may take to open a store, which doesn't connect.
const storeTime = 20 * time.Second

// openArchiving makes the archiver of a copy.
func openArchiving(i *instance, copy *adopted, config agentapi.Config) (*walArchiving, error) {
	a := &walArchiving{instance: i, copy: copy}
	a.archiver = archive.New(filepath.Join(copy.pgdata, "pg_wal"), a.Log, time.Now, a.ArchiveLimits)
	var err error
	if a.unsocket, err = a.serve(); err != nil {
		a.archiver.Close()
		return nil, err
	}
	a.setArchiver(a.archiver)
	a.aim(config)
	return a, nil
}

func (a *walArchiving) close() {
	a.setArchiver(nil)
	a.unsocket()
	a.archiver.Close()
}

// aim tells the archiver where WAL goes.
func (a *walArchiving) aim(config agentapi.Config) {
	if config.Archive == nil {
		a.archiver.SetTarget(nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	store, err := a.OpenStore(ctx, config.Archive.Repository)
	g := a.copy.generation
	a.archiver.SetTarget(&archive.Target{
		Store: store, Err: err, Memory: archiveMemory(config.MemoryBytes), Timeout: postgres.ArchiveTimeout(config.Parameters),
		ShipInterval: shipInterval(config), Identity: a.knownRepository,
		Writer: fmt.Sprintf("pod %s of cluster %s/%s (UID %s)", a.Pod, config.Namespace, config.Cluster, config.ClusterUID),
		Claim: layout.Lineage{
			Lineage:          layout.LineageName(g.SystemIdentifier, g.DataGeneration()),
			Writer:           layout.Writer{UID: config.ClusterUID, Namespace: config.Namespace, Name: config.Cluster},
			SystemIdentifier: g.SystemIdentifier, Generation: g.DataGeneration(), SegmentSize: a.copy.segSize, PGMajor: g.MajorVersion,
			Created: time.Now().UTC(),
		},
	})
	a.Log.Info("WAL goes to the archive", "lineage", layout.LineageName(g.SystemIdentifier, g.DataGeneration()), "bucket", config.Archive.Repository.Bucket)
}

func sameArchive(a, b agentapi.Config) bool {
	return agentapi.Config{Archive: a.Archive}.Hash() == agentapi.Config{Archive: b.Archive}.Hash()
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

// serve answers archive_command until the returned function is called.
func (a *walArchiving) serve() (stop func(), err error) {
	var listener net.Listener
	if listener, err = walsocket.Listen(a.SocketDir); err != nil {
		return nil, fmt.Errorf("local socket: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the server, which archives to its end
	go func() {
		if err := walsocket.Serve(ctx, listener, a.archiver); err != nil {
			a.Log.Error("archive_command is not answered any more", "error", err)
		}
	}()
	return cancel, nil
}
