package basebackup

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// Reasons that a backup may end with, besides those of job.StoreFailure.
const (
	reasonDataCorrupt         = "DataCorrupt"
	reasonInstanceChanged     = "InstanceChanged"
	reasonDatabaseUnreachable = "DatabaseUnreachable"
	reasonWALMissing          = "WALMissing"
	reasonUnsupportedBuild    = "UnsupportedBuild"
)

// errConnect is a server that can't be reached, or that refuses the role.
var errConnect = errors.New("can't connect to the server")

// explain gives an error its reason and sentence. Only damaged data is final: everything else may pass.
func explain(ctx context.Context, err error) error {
	if lack := job.MemoryFailure(err, "spec.resources.limits.memory of the Backup or BackupSchedule"); lack != nil {
		return lack
	}
	damage := &backup.DamageError{}
	fault := &objstore.Error{}
	switch {
	case errors.As(err, &damage):
		return job.Final(reasonDataCorrupt, fmt.Errorf(
			"%w. The data directory itself is damaged, so no backup was made of it; look at the disk, and restore an earlier backup. "+
				"To back up the rest meanwhile, set spec.damagedPages: Report of the Backup or BackupSchedule; for final and safety backups, "+
				"set spec.archive.damagedPages: Report of the PostgresCluster", damage))
	case errors.Is(err, backup.ErrControl):
		return job.Final(reasonDataCorrupt, err)
	case errors.Is(err, errInstanceChanged):
		return job.Fail(reasonInstanceChanged, err)
	case errors.Is(err, errConnect), errors.Is(err, errSessionLost):
		return job.Fail(reasonDatabaseUnreachable, err)
	case errors.Is(err, backup.ErrWALMissing) && ctx.Err() == nil:
		return job.Fail(reasonWALMissing, fmt.Errorf("%w; see the condition Archiving of the PostgresCluster", err))
	case (errors.As(err, &fault) || sealed.Reason(err) != "") && ctx.Err() == nil:
		return job.StoreFailure(err)
	}
	return err
}

// plain makes an error of the server one sentence, without the values it may quote.
func plain(err error) error {
	fault := &pgconn.PgError{}
	if errors.As(err, &fault) {
		return fmt.Errorf("%s (SQLSTATE %s)", fault.Message, fault.Code)
	}
	return err
}
