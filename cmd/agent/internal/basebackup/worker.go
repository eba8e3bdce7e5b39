// Package basebackup is the worker of a backup Job: it makes sure that the volume beside it is the one of the instance
// it is connected to, brackets the copy with pg_backup_start and pg_backup_stop, and leaves the rest to pkg/backup.
package basebackup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// walTimeout is how long the last WAL may take to reach the archive, once everything is copied.
const walTimeout = 20 * time.Minute

// Worker is what one backup needs of its pod.
type Worker struct {
	Volume generation.Volume
	// Connect opens a session in the instance that is read.
	Connect func(context.Context) (*pgx.Conn, error)
	Store   objstore.Store
	// Report is told how far the work is. It must not wait.
	Report func(job.Progress)
	// Tool is the version that stands in the manifest.
	Tool string
	// Memory is the limit of the pod, in bytes; 0: it has none.
	Memory int64
	// WALTimeout replaces walTimeout.
	WALTimeout time.Duration
}

// Run makes the backup of task. It may be repeated: a backup that is committed is not made again. Errors are
// *job.Failure with a reason for a condition.
func (w *Worker) Run(ctx context.Context, task agentapi.BackupJob) (agentapi.BackupResult, error) {
	manifest, err := w.run(ctx, task)
	if err != nil {
		return agentapi.BackupResult{}, explain(ctx, err)
	}
	result := agentapi.BackupResult{
		Version: manifest.PGVersion, StartLSN: manifest.StartLSN.String(), StopLSN: manifest.StopLSN.String(),
		StopTime: manifest.StopTime, LogicalBytes: manifest.Totals.LogicalBytes, StoredBytes: manifest.Totals.StoredBytes,
		CopiedBytes: manifest.Totals.CopiedBytes, Incremental: manifest.Type == backup.Incremental, Parent: manifest.Parent, Why: manifest.Why,
	}
	if l := manifest.Locked; l != nil {
		result.Locked = &agentapi.Locked{Until: l.Until, Object: l.Object}
	}
	if damage := manifest.Damage; damage != nil {
		result.DamagedPages = damage.Count
		for _, page := range damage.Pages[:min(agentapi.MaxDamaged, len(damage.Pages))] {
			result.Damaged = append(result.Damaged, agentapi.DamagedPage{File: page.File, Block: page.Block})
		}
	}
	return result, nil
}

func (w *Worker) run(ctx context.Context, task agentapi.BackupJob) (*backup.Manifest, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := w.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, label: "howdah " + task.BackupID, lost: cancel}
	defer s.close()
	facts, err := s.facts(ctx)
	if err != nil {
		return nil, err
	}
	pgdata, err := w.checkVolume(task, facts)
	if err != nil {
		return nil, err
	}
	source, err := describe(task, facts)
	if err != nil {
		return nil, err
	}
	source.DataDir, source.Start, source.Stop = pgdata, s.start, s.stop
	manifest, err := backup.Write(ctx, w.Store, source, backup.Options{
		ID: task.BackupID, Parent: task.Parent, Tool: w.Tool, Compression: backup.Compression(task.Compression),
		MemoryLimit: task.MemoryLimit, MaxBytesPerSecond: task.MaxBytesPerSecond, WALTimeout: w.walTimeout(), Progress: w.progress,
		ReportDamage: task.ReportDamage, Memory: w.Memory,
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && ctx.Err() != nil {
		return nil, cause
	}
	return manifest, err
}

func (w *Worker) walTimeout() time.Duration {
	if w.WALTimeout > 0 {
		return w.WALTimeout
	}
	return walTimeout
}

func (w *Worker) progress(p backup.Progress) {
	report := job.Progress{Phase: string(p.Phase), DoneBytes: p.Done, TotalBytes: p.Total}
	if p.Phase == backup.AwaitWAL {
		report.Message = "Everything is copied; the backup is complete when the last WAL is archived."
	}
	w.Report(report)
}

// fileBlocks is how many blocks a file of a relation has in every packaged build: 1 GiB.
const fileBlocks = 1 << 30 / postgres.PageSize

// checkBuild refuses a server whose files are divided otherwise than they are read here.
func checkBuild(facts facts) error {
	if facts.blockSize == postgres.PageSize && facts.fileBlocks == fileBlocks {
		return nil
	}
	return job.Final(reasonUnsupportedBuild, fmt.Errorf(
		"PostgreSQL was built with blocks of %d bytes and files of %d blocks, and only blocks of %d bytes and files of %d blocks can be backed up; use an image with the default --with-blocksize and --with-segsize",
		facts.blockSize, facts.fileBlocks, postgres.PageSize, fileBlocks))
}

// describe says what is backed up, without where it is.
func describe(task agentapi.BackupJob, facts facts) (backup.Source, error) {
	if err := checkBuild(facts); err != nil {
		return backup.Source{}, err
	}
	object, err := clusterObject(task)
	if err != nil {
		return backup.Source{}, err
	}
	secrets, err := keptSecrets(task, agentapi.SecretsDir)
	if err != nil {
		return backup.Source{}, err
	}
	return backup.Source{
		Lineage: task.Lineage, SystemIdentifier: facts.systemIdentifier,
		PGVersion: facts.version.String(), PGMajor: facts.version.Major,
		DataChecksums: facts.checksums, WALSegmentSize: facts.walSegmentSize, CheckControl: true,
		Cluster: backup.Cluster{
			Namespace: task.Object.Namespace, Name: task.Cluster, UID: task.ClusterUID,
			Instance: instanceOf(task.Host), Generation: task.DataGeneration, Image: task.Image, Object: object,
			Secrets: secrets,
		},
	}, nil
}

// clusterObject is the PostgresCluster as it can be made again.
func clusterObject(task agentapi.BackupJob) (json.RawMessage, error) {
	object := map[string]any{
		"apiVersion": "howdah.dev/v1alpha1", "kind": "PostgresCluster",
		"metadata": map[string]any{"name": task.Cluster, "namespace": task.Object.Namespace},
		"spec":     task.ClusterSpec,
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("describe the cluster: %w", err)
	}
	return raw, nil
}
