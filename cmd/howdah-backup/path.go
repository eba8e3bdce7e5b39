package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/pitr/bucket"
	"howdah.dev/howdah/pkg/postgres"
)

// path is a backup, and how to continue from it.
type path struct {
	header   *backup.Header
	timeline uint32 // that is followed
	// stopAt is where replay stops; End() of it: where the archive ends.
	stopAt pitr.Target
	// last is the segment that replay ends with, and until the end of it where that lies within the segment, if the end is one that was asked for.
	last  string
	until postgres.LSN
	// least is the segment that replay to the end of the archive leads to at least, where no end was asked for.
	least string
}

// find finds the backup and the path from it.
func (r *restore) find(ctx context.Context, store objstore.Store, id string) (path, error) {
	filter := r.filter
	only := ""
	if id != "" {
		name, err := lookup.Find(ctx, store, filter, id)
		if err != nil {
			return path{}, err
		}
		filter, only = lookup.Filter{Lineage: name.Lineage}, name.ID
	}
	lineages, err := lookup.Lineages(ctx, store, filter)
	if err != nil {
		return path{}, err
	}
	if err := oneCluster(lineages); err != nil {
		return path{}, err
	}
	if !r.replays {
		header, err := backup.ReadHeader(ctx, store, filter.Lineage, only)
		if err != nil {
			return path{}, err
		}
		return path{header: header, timeline: header.Timeline}, nil
	}
	examined, err := bucket.Examine(ctx, store, lineages, only, r.target)
	if err != nil {
		return path{}, err
	}
	now := r.now()
	verdict := pitr.Decide(examined.Candidates, r.target, pitr.Facts{Now: now})
	if err := refusal(verdict, now); err != nil {
		return path{}, err
	}
	header, err := backup.ReadOutline(ctx, store, verdict.Candidate.Lineage, verdict.Candidate.Reach.Backup.ID)
	found := path{header: header, timeline: verdict.Candidate.Timeline, stopAt: verdict.StopAt}
	switch end := verdict.Candidate.Reach.Last(); {
	case !found.stopAt.End(): // PostgreSQL itself complains if it doesn't get there
	case r.target.End():
		found.least = nameOf(end)
	default:
		found.last, found.until = end.Name(), verdict.Bound
	}
	return found, err
}

// oneCluster refuses to choose between databases. The lineages of one are those of its upgrades and restores in place.
func oneCluster(lineages []layout.Lineage) error {
	var names []string
	for _, lineage := range lineages {
		if name := lineage.Writer.Namespace + "/" + lineage.Writer.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		slices.Sort(names)
		return fmt.Errorf("%w: there is more than one cluster; use --cluster (and --namespace) for one of %s", lookup.ErrAmbiguous, strings.Join(names, ", "))
	}
	return nil
}
