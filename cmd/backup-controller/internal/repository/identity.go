package repository

import (
	"context"
	"errors"
	"fmt"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// wayOut is what a person can do about a repository that is another one than before.
const wayOut = "Retention deletes nothing there, and no backup begins. If the bucket has versions, put the earlier version of %[1]s back; a second BackupRepository with spec.readOnly and spec.asOf shows what was there. If the repository was replaced on purpose, create another BackupRepository."

// sameAsBefore compares the repository with the one that status remembers. Whoever replaced a bucket or its marker is noticed by that;
// nothing else would tell an emptied place from a new one.
func sameAsBefore(ctx context.Context, store objstore.Store, repo *v1alpha1.BackupRepository) (identity string, wrong *verdict) {
	known := repo.Status.Identity
	marker, err := layout.ReadMarker(ctx, store)
	switch {
	case err == nil && (known == "" || marker.Identity() == known):
		return marker.Identity(), nil
	case known == "":
		return "", nil // a new place, or a store that the check says more about
	case err == nil:
		return "", replaced(fmt.Sprintf("%s says that this is repository %s, and it was %s before.", layout.MarkerKey, marker.Identity(), known))
	case errors.Is(err, objstore.ErrNotFound):
		return "", replaced(fmt.Sprintf("There is no %s any more: repository %s was deleted, or its bucket was replaced.", layout.MarkerKey, known))
	case errors.Is(err, objstore.ErrCorrupt), errors.Is(err, layout.ErrFormat):
		return "", replaced(fmt.Sprintf("%s can't be read any more: %s", layout.MarkerKey, sentence(objstore.Explain(err))))
	}
	return "", nil // the check says what is wrong with the store
}

func replaced(why string) *verdict {
	return &verdict{Reason: v1alpha1.ReasonRepositoryReplaced, Message: why + " " + fmt.Sprintf(wayOut, layout.MarkerKey)}
}
