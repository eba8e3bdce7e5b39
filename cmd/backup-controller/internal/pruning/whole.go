package pruning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/backup/retention"
	"howdah.dev/howdah/pkg/objstore"
)

// maxIncomplete bounds how many backups of a lineage one run finds incomplete.
const maxIncomplete = 10

// plan is what the policy removes from a lineage. Before it removes anything, it is made sure that the backups on which it relies are all
// there: a lifecycle rule of the bucket can have deleted their packs. Those that are not count as damaged, and are returned.
func (r *run) plan(ctx context.Context, l *inventory.Lineage, retained retention.Lineage, policy retention.Policy) (plan retention.Plan, incomplete []string, err error) {
	whole := map[string]bool{}
	for {
		plan = retention.Make(retained, policy, r.now)
		if !l.Loses(plan) {
			return plan, incomplete, nil
		}
		known := len(incomplete)
		for _, b := range plan.Relied {
			if whole[b.ID] {
				continue
			}
			_, err := backup.Committed(ctx, r.store, l.Lineage.Lineage, b.ID)
			switch {
			case err == nil:
				whole[b.ID] = true
			case errors.Is(err, objstore.ErrNotFound), errors.Is(err, backup.ErrCorrupt), errors.Is(err, backup.ErrFormat):
				incomplete = append(incomplete, b.ID)
			default:
				return plan, incomplete, fmt.Errorf("backup %s: %w", b.ID, err)
			}
		}
		if len(incomplete) == known || len(incomplete) >= maxIncomplete {
			return plan, incomplete, nil
		}
		for i := range retained.Backups {
			b := &retained.Backups[i]
			b.Damaged = b.Damaged || slices.Contains(incomplete, b.ID)
		}
	}
}

// lacking says in a sentence that backups on which the plan of a lineage would rely are not all there; empty: they are.
func lacking(l *inventory.Lineage, plan retention.Plan, incomplete []string) string {
	if len(incomplete) == 0 {
		return ""
	}
	newest := "No other backup is known to be complete."
	for _, b := range plan.Relied {
		if !slices.Contains(incomplete, b.ID) {
			newest = fmt.Sprintf("The newest complete one is %s.", b.ID)
			break
		}
	}
	return fmt.Sprintf("Nothing is removed from lineage %s because packs of these backups are missing from the bucket, or their manifests are damaged: %s. %s "+
		"Look for a lifecycle rule of the bucket that deletes objects, create a Backup with spec.type: Full, and delete the incomplete ones.",
		l.Lineage.Lineage, strings.Join(incomplete, ", "), newest)
}
