// Package verifyjob is the worker of a verification's Job: it reads every object of a backup, and says which of them are
// damaged.
package verifyjob

import (
	"context"
	"encoding/json"
	"errors"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

const (
	// mostWrong is how many wrong objects are handed over, in as many bytes of JSON as leave room in a termination message.
	mostWrong      = 10
	mostWrongBytes = 3000
	// mostText is how much of a file's name or of a detail is handed over, in bytes.
	mostText = 300
)

// Worker is what one verification needs of its pod.
type Worker struct {
	Store objstore.Store
	// Memory is the limit of the pod, in bytes; 0: it has none.
	Memory int64
	// Report is told how far the work is. It must not wait.
	Report func(job.Progress)
}

// Run reads the backup of task. It may be repeated. Wrong objects are its result; errors are *job.Failure with a reason
// for a condition, and say nothing of the backup.
func (w *Worker) Run(ctx context.Context, task agentapi.VerifyJob) (agentapi.VerifyResult, error) {
	seen, err := backup.VerifyBackup(ctx, w.Store, task.Lineage, task.BackupID, backup.VerifyOptions{
		MaxBytesPerSecond: task.MaxBytesPerSecond, MemoryLimit: task.MemoryLimit, Progress: w.progress, Memory: w.Memory,
	})
	if lack := job.MemoryFailure(err, "spec.resources.limits.memory of the Backup"); lack != nil {
		return agentapi.VerifyResult{}, lack
	}
	if err != nil && !errors.Is(err, backup.ErrCorrupt) {
		return agentapi.VerifyResult{}, explain(ctx, err)
	}
	result := agentapi.VerifyResult{
		Objects: int64(seen.Objects), CheckedBytes: seen.StoredBytes,
		WrongObjects: int64(seen.WrongObjects), Wrong: describe(seen.Wrong),
	}
	if l := seen.Locked; l != nil {
		result.Locked = &agentapi.Locked{Until: l.Until, Object: l.Object}
	}
	return result, nil
}

func explain(ctx context.Context, err error) error {
	var fault *objstore.Error
	if (errors.As(err, &fault) || sealed.Reason(err) != "") && ctx.Err() == nil {
		return job.StoreFailure(err)
	}
	return err
}

func (w *Worker) progress(p backup.Progress) {
	w.Report(job.Progress{Phase: string(p.Phase), DoneBytes: p.Done, TotalBytes: p.Total})
}

// describe names the first wrong objects, as many as can be handed over.
func describe(wrong []*backup.CorruptError) []agentapi.WrongObject {
	var named []agentapi.WrongObject
	size := 0
	for _, found := range wrong {
		object := agentapi.WrongObject{Object: found.Object, File: job.Shorten(found.File, mostText), Detail: job.Shorten(found.Detail, mostText)}
		raw, err := json.Marshal(object)
		size += len(raw) + 1
		if err != nil || len(named) == mostWrong || size > mostWrongBytes {
			break
		}
		named = append(named, object)
	}
	return named
}
