package pruning

import (
	"context"
	"errors"
	"time"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/inventory"
	"howdah.dev/howdah/pkg/objstore"
)

// inTurn are the lineages, last those whose look for what interrupted backups have left takes most of what is left of the run.
func (r *run) inTurn() []*inventory.Lineage {
	all := make([]*inventory.Lineage, 0, len(r.lineages))
	for _, stuck := range []bool{false, true} {
		for i := range r.lineages {
			if l := &r.lineages[i]; r.sweeps[l.Lineage.Lineage].Stuck() == stuck {
				all = append(all, l)
			}
		}
	}
	return all
}

// sweep removes what interrupted backups have left, as far as there is time for it; the next run continues where it ended.
func (r *run) sweep(ctx context.Context, name string) error {
	limited, cancel := context.WithTimeout(ctx, r.timeToSweep(ctx, name))
	defer cancel()
	if r.sweeps[name] == nil {
		r.sweeps[name] = &backup.Sweep{}
	}
	ids, bytes, err := r.sweeps[name].Run(limited, r.store, name, r.now.Add(-orphanAge))
	r.result.removed.orphans += len(ids)
	r.result.removed.bytes += bytes
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		r.waitFor("Lineage %s is being looked through for what interrupted backups have left. That takes longer than a run has time for; the next run continues.", name)
		return nil
	}
	if err == nil || errors.Is(err, objstore.ErrLocked) || errors.Is(err, backup.ErrTooLarge) {
		r.swept[name] = r.now
		delete(r.sweeps, name)
	}
	return err
}

// timeToSweep is half of the time that is left for this, so that other lineages and retention come, too. Who could not even read in that time
// what is used would never come to an end, and gets most of what is left of the run.
func (r *run) timeToSweep(ctx context.Context, name string) time.Duration {
	end, ends := ctx.Deadline()
	if ends && r.sweeps[name].Stuck() {
		return time.Until(end) / 5 * 4
	}
	return time.Until(r.sweepsEnd) / 2
}
