package standbyjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/cmd/agent/internal/recovery"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/pitr/bucket"
)

// spareBytes are left on the volume beside the backup, for WAL that is being replayed.
const spareBytes = 64 << 20

// restore chooses a backup, and writes it onto the volume. What an attempt that was killed has left of it counts for nothing.
func (w *Worker) restore(ctx context.Context) error {
	chosen, err := w.choose(ctx)
	if err != nil {
		return err
	}
	manifest, err := backup.ReadManifest(ctx, w.store, chosen.Lineage, chosen.Backup)
	if err != nil {
		return err
	}
	if manifest.PGMajor != w.MajorVersion {
		return job.Final(job.ReasonBadJob, fmt.Errorf("the source runs PostgreSQL %d, and this cluster has version %d: delete this PostgresCluster, and create it with spec.version: %[1]d", manifest.PGMajor, w.MajorVersion))
	}
	if err := w.checkRoom(ctx, chosen, manifest.Totals.LogicalBytes); err != nil {
		return err
	}
	w.record = chosen
	if err := w.begin(); err != nil {
		return err
	}
	w.Log.Info("Restoring a backup first", "lineage", chosen.Lineage, "backup", chosen.Backup, "bytes", manifest.Totals.LogicalBytes)
	w.hear(ctx)
	store, err := w.OpenPatiently(ctx, w.repository())
	if err != nil {
		return err
	}
	err = w.fetch(ctx, store, manifest)
	if errors.Is(err, unix.ENOSPC) {
		return errors.Join(errors.New("the volume is full: raise spec.storage."+generation.WAL(w.Volume).FullSize()), err)
	}
	if err != nil {
		return err
	}
	if err := generation.WAL(w.Volume).Place(w.DataGeneration); err != nil {
		return err
	}
	return w.restored()
}

// fetch writes a backup onto the volume, and hears what is wanted meanwhile.
func (w *Worker) fetch(ctx context.Context, store objstore.Store, manifest *backup.Manifest) error {
	fetched := make(chan error, 1)
	go func() {
		fetched <- backup.Restore(ctx, store, manifest, w.pgdata(), backup.RestoreOptions{MemoryLimit: w.Task.MemoryLimit, Progress: func(p backup.Progress) {
			w.Progress(job.Progress{Phase: "Fetching", DoneBytes: p.Done, TotalBytes: p.Total})
		}})
	}()
	pause := time.NewTicker(w.Pause)
	defer pause.Stop()
	for {
		select {
		case err := <-fetched:
			return err
		case <-pause.C:
			w.hear(ctx)
		}
	}
}

// restored records that the backup is on the volume, once all of it is durable, and the next server on it is a standby.
func (w *Worker) restored() error {
	if err := w.standBy(); err != nil {
		return err
	}
	if err := generation.Sync(w.Volume, w.DataGeneration); err != nil {
		return err
	}
	next := w.record
	next.Restored = true
	return w.note(next)
}

// standBy has the next server on the data be a standby that heeds nothing which ALTER SYSTEM has set at the source.
func (w *Worker) standBy() error {
	if err := recovery.PutAside(w.pgdata(), w.folder()); err != nil {
		return err
	}
	return recovery.Replace(w.pgdata(), map[string]string{
		"standby.signal": "", "recovery.signal": recovery.Remove, "postmaster.pid": recovery.Remove, "postmaster.opts": recovery.Remove,
		"backup_label.old": recovery.Remove, "tablespace_map.old": recovery.Remove,
	})
}

func (w *Worker) checkRoom(ctx context.Context, chosen record, bytes int64) error {
	if header, err := backup.ReadHeader(ctx, w.store, chosen.Lineage, chosen.Backup); err == nil {
		if failure := job.MemoryFailure(header.CheckMemory(w.Memory), "spec.resources.limits.memory"); failure != nil {
			return failure
		}
	}
	left, err := w.Volume.Used(w.DataGeneration) // by an attempt that was killed
	if err != nil {
		return err
	}
	_, free, err := w.Volume.Space()
	if err != nil {
		return fmt.Errorf("look for space on the volume: %w", err)
	}
	if needed := bytes + spareBytes; free+left < needed {
		beside := ""
		if w.record.Why != "" {
			beside = ", beside the copy that is kept until the new one is complete"
		}
		return job.Fail(ReasonNoSpace, fmt.Errorf("the volume has %d MiB free, and the backup of the source needs %d MiB at least%s: raise spec.storage.size", (free+left)>>20, needed>>20, beside))
	}
	return nil
}

// choose is the record of the newest backup from which the archive can be followed.
func (w *Worker) choose(ctx context.Context) (record, error) {
	owners, err := w.lineages(ctx)
	if err != nil {
		return record{}, err
	}
	read := time.Now()
	found, err := bucket.Examine(ctx, w.store, owners, "", pitr.Target{})
	if err != nil {
		return record{}, err
	}
	verdict := pitr.Decide(found.Candidates, pitr.Target{}, pitr.Facts{Now: time.Now(), Read: read, Asked: read})
	if verdict.Candidate == nil || verdict.Candidate.Reach == nil || !verdict.Candidate.Reach.Covers() {
		return record{}, fmt.Errorf("%s has no backup yet that can be restored (%s): create a Backup of the source", names(owners), verdict.Code)
	}
	newest := verdict.Candidate.Reach.Backup
	if newest.StopLSN <= w.record.Beyond {
		return record{}, fmt.Errorf("the newest backup of lineage %s (%s) ends at LSN %s, and WAL up to LSN %s was replayed here, %w",
			verdict.Candidate.Lineage, newest.ID, newest.StopLSN, w.record.Beyond, errOlder)
	}
	chosen := w.record // what it is for stays
	chosen.Cluster, chosen.Lineage, chosen.Backup = w.Task.Cluster, verdict.Candidate.Lineage, newest.ID
	return chosen, nil
}

func names(owners []layout.Lineage) string {
	var all []string
	for _, owner := range owners {
		all = append(all, "lineage "+owner.Lineage)
	}
	return strings.Join(all, ", ")
}

// lineages are those that may be followed: the one that is named, or all of the only cluster in the repository.
func (w *Worker) lineages(ctx context.Context) ([]layout.Lineage, error) {
	if w.Task.Lineage != "" {
		owner, err := layout.ReadLineage(ctx, w.store, w.Task.Lineage)
		if errors.Is(err, objstore.ErrNotFound) {
			return nil, fmt.Errorf("the repository has no lineage %s, which spec.standby.source.repository.lineage names", w.Task.Lineage)
		}
		return []layout.Lineage{owner}, err
	}
	all, err := layout.Lineages(ctx, w.store)
	if err != nil {
		return nil, err
	}
	var owners []layout.Lineage
	clusters := map[string]bool{}
	for _, name := range all {
		owner, err := layout.ReadLineage(ctx, w.store, name)
		if err != nil { // one that can't be read may be the one that is meant
			return nil, fmt.Errorf("lineage %s: %w", name, err)
		}
		if owner.Writer.UID == w.Task.Cluster {
			continue // no cluster follows itself
		}
		owners = append(owners, owner)
		clusters[owner.Writer.Namespace+"/"+owner.Writer.Name] = true
	}
	switch len(clusters) {
	case 0:
		return nil, errors.New("the repository is empty: create a Backup of the source")
	case 1:
		return owners, nil
	}
	return nil, fmt.Errorf("the repository contains more than one cluster (%s): delete this PostgresCluster, and create it with spec.standby.source.repository.lineage",
		strings.Join(slices.Sorted(maps.Keys(clusters)), ", "))
}
