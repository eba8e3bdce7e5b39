package initialize

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"howdah.dev/howdah/cmd/agent/internal/generation"
	"howdah.dev/howdah/cmd/agent/internal/importjob"
	"howdah.dev/howdah/cmd/agent/internal/postmaster"
	"howdah.dev/howdah/pkg/agentapi"
)

// copiedFile is in the folder of a data generation whose copy is whole: an import that follows its source continues with it.
const copiedFile = "import.json"

// Times for which an import tries to drop what it has created on its source, once that counts no more: the application waits.
const (
	usualReleaseTime = 2 * time.Minute
	releasePause     = 5 * time.Second
)

// createOnline copies, follows until the cutover, and makes the generation whole. It continues where the previous pod has ended, once all is copied.
func (w Worker) createOnline(ctx context.Context, task agentapi.InitJob, binDir string) (generation.Generation, error) {
	g := generation.Generation{ID: task.DataGeneration, MajorVersion: task.MajorVersion, Origin: generation.Initdb, From: task.Import.Source.Host}
	copied, err := w.readCopied(g.ID)
	if errors.Is(err, fs.ErrNotExist) {
		copied, err = w.copyOnline(ctx, task, binDir)
	}
	if err == nil {
		err = w.follow(ctx, task, binDir, copied)
	}
	if err != nil {
		return generation.Generation{}, err
	}
	return w.complete(ctx, g, binDir)
}

// copyOnline has everything that was copied on the disk before that is recorded.
func (w Worker) copyOnline(ctx context.Context, task agentapi.InitJob, binDir string) (importjob.Copied, error) {
	pgdata, err := w.Volume.Begin(task.DataGeneration)
	if err != nil {
		return importjob.Copied{}, err
	}
	if _, err := w.initdb(ctx, task, binDir, pgdata); err != nil {
		return importjob.Copied{}, err
	}
	copied, err := w.runImport(ctx, task, binDir, pgdata)
	if err == nil {
		err = generation.Sync(w.Volume, task.DataGeneration)
	}
	if err == nil {
		err = w.recordCopied(task.DataGeneration, copied)
	}
	return copied, err
}

// follow runs a server that keeps what it has confirmed to the source.
func (w Worker) follow(ctx context.Context, task agentapi.InitJob, binDir string, copied importjob.Copied) error {
	id := task.DataGeneration
	if err := postmaster.RemoveStalePID(w.Volume.PGData(id)); err != nil {
		return err
	}
	err := w.withImport(ctx, task, func(importing importjob.Worker) error {
		return w.serve(ctx, task, &importing, w.Volume.PGData(id), binDir, importjob.FollowSettings(task.MajorVersion, copied), func() error {
			return importing.Follow(ctx, copied, func(now importjob.Copied) error { return w.recordCopied(id, now) })
		})
	})
	if errors.Is(err, importjob.ErrBeginAgain) {
		return errors.Join(err, w.forgetCopied(id))
	}
	return err
}

func (w Worker) readCopied(id string) (copied importjob.Copied, err error) {
	content, err := os.ReadFile(filepath.Join(w.Volume.Dir(id), copiedFile))
	if err != nil {
		return copied, err
	}
	if err := json.Unmarshal(content, &copied); err != nil {
		return copied, fmt.Errorf("%s of data generation %s can't be read: %w", copiedFile, id, err)
	}
	return copied, nil
}

func (w Worker) recordCopied(id string, copied importjob.Copied) error {
	content, err := json.Marshal(copied)
	if err != nil {
		return err
	}
	return generation.WriteFile(filepath.Join(w.Volume.Dir(id), copiedFile), content, 0o600)
}

// forgetCopied has the next attempt begin again.
func (w Worker) forgetCopied(id string) error {
	if err := os.Remove(filepath.Join(w.Volume.Dir(id), copiedFile)); err != nil {
		return err
	}
	return generation.SyncDir(w.Volume.Dir(id))
}

// releaseSource drops what the import has created on its source, or says how a person does that: the data are here, and the application waits.
func (w Worker) releaseSource(ctx context.Context, task agentapi.InitJob) error {
	copied, err := w.readCopied(task.DataGeneration)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was done
	}
	if err != nil {
		return err
	}
	err = w.withImport(ctx, task, func(importing importjob.Worker) error {
		err := w.tryRelease(ctx, importing)
		if err == nil || ctx.Err() != nil {
			return err
		}
		slog.Error("what the import has created on the source could not be dropped", "error", err)
		copied.Found.Warnings = append(copied.Found.Warnings, fmt.Sprintf("The source could not be reached at the end. Drop what the import has left in each database there: SELECT pg_drop_replication_slot(slot_name) "+
			"FROM pg_replication_slots WHERE database = current_database() AND slot_name IN ('%[1]s'), and the publication of the same name.", strings.Join(importing.Names(copied.Databases), "', '")))
		return importing.Preflighted(ctx, copied.Found)
	})
	if err != nil {
		return fmt.Errorf("release the source: %w", err)
	}
	return w.forgetCopied(task.DataGeneration)
}

// tryRelease for a while.
func (w Worker) tryRelease(ctx context.Context, importing importjob.Worker) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(w.ReleaseTime, usualReleaseTime))
	defer cancel()
	for {
		err := importing.Release(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(releasePause):
		}
	}
}

// onlyRelease is for an import that has ended otherwise.
func (w Worker) onlyRelease(ctx context.Context, task agentapi.InitJob) error {
	dir, err := os.MkdirTemp("", "import")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	importing := importjob.Worker{Task: *task.Import, Scratch: dir, Secrets: w.Secrets}
	return importing.Release(ctx)
}
