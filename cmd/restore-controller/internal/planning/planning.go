// Package planning plans a Restore: it reads from the bucket what pitr needs to decide on spec.source and spec.target, and says the
// verdict in the words of the spec.
package planning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/pitr/bucket"
)

// ErrNotThere is a backup or a cluster that the repository knows nothing of. The error's text is a sentence.
var ErrNotThere = errors.New("not in the repository")

// ErrAmbiguous is a question that fits more than one cluster. The error's text is a sentence.
var ErrAmbiguous = errors.New("more than one cluster")

// Question says what to look for: one backup (Lineage and BackupID), the best one of a lineage, or the best one of a
// cluster. Without any of them it is about the one cluster that the repository is of.
type Question struct {
	Lineage, BackupID string

	Cluster string
	// Namespace whose cluster of the name goes before those of other namespaces.
	Namespace string
	// ClusterUID narrows it down to that very cluster; empty: any of the name.
	ClusterUID string

	Target pitr.Target
}

// Report is what a bucket holds for a question.
type Report struct {
	bucket.Examined
	At time.Time // when reading began
}

// Read looks into the bucket. Errors: ErrNotThere, ErrAmbiguous, *backup.CorruptError, wal.ErrCorrupt, those of objstore.
func Read(ctx context.Context, store objstore.Store, q Question, now func() time.Time) (Report, error) {
	report := Report{At: now()}
	owners, err := lineagesOf(ctx, store, q)
	if err != nil {
		return Report{}, err
	}
	report.Examined, err = bucket.Examine(ctx, store, owners, q.BackupID, q.Target)
	if q.BackupID != "" && errors.Is(err, objstore.ErrNotFound) {
		return Report{}, fmt.Errorf("%w: the repository has no backup %s; its data was deleted", ErrNotThere, q.BackupID)
	}
	return report, err
}
