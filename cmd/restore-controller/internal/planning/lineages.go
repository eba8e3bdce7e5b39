package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// ParsePath reads the path of a lineage, or of one backup in it, below the prefix of a repository. Nothing is the whole
// repository. The API server has checked how it is written.
func ParsePath(path string) (lineage, backup string) {
	path = strings.TrimPrefix(strings.TrimSuffix(path, "/"), "lineages/")
	lineage, backup, _ = strings.Cut(path, "/backups/")
	return lineage, strings.TrimSuffix(backup, "/manifest.zst")
}

// lineagesOf lists the lineages that a question is about.
func lineagesOf(ctx context.Context, store objstore.Store, q Question) ([]layout.Lineage, error) {
	if q.Lineage != "" {
		owner, err := layout.ReadLineage(ctx, store, q.Lineage)
		if errors.Is(err, objstore.ErrNotFound) {
			return nil, fmt.Errorf("%w: the repository has no lineage %s", ErrNotThere, q.Lineage)
		}
		return []layout.Lineage{owner}, err
	}
	return ofCluster(ctx, store, q)
}

// ofCluster are the lineages of the cluster that is asked for: that of our namespace, else the only one of the name.
func ofCluster(ctx context.Context, store objstore.Store, q Question) ([]layout.Lineage, error) {
	names, err := layout.Lineages(ctx, store)
	if err != nil {
		return nil, err
	}
	var found, elsewhere []layout.Lineage
	for _, name := range names {
		owner, err := layout.ReadLineage(ctx, store, name)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
		case err != nil:
			return nil, err
		case q.Cluster != "" && owner.Writer.Name != q.Cluster || q.ClusterUID != "" && owner.Writer.UID != q.ClusterUID:
		case q.Cluster != "" && owner.Writer.Namespace == q.Namespace:
			found = append(found, owner)
		default:
			elsewhere = append(elsewhere, owner)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(elsewhere) == 0 && q.Cluster == "":
		return nil, fmt.Errorf("%w: the repository is empty", ErrNotThere)
	case len(elsewhere) == 0:
		return nil, fmt.Errorf("%w: the repository has nothing of a cluster %s", ErrNotThere, q.Cluster)
	}
	return elsewhere, ofOne(elsewhere)
}

// ofOne says that these lineages are of one cluster. One that was made again under its name is the same.
func ofOne(lineages []layout.Lineage) error {
	places := map[string][]string{}
	for _, l := range lineages {
		cluster := l.Writer.Namespace + "/" + l.Writer.Name
		places[cluster] = append(places[cluster], "lineages/"+l.Lineage)
	}
	if len(places) == 1 {
		return nil
	}
	var parts []string
	for cluster, paths := range places {
		parts = append(parts, fmt.Sprintf("%s (%s)", cluster, strings.Join(paths, ", ")))
	}
	slices.Sort(parts)
	return fmt.Errorf("%w in the repository: %s; write one of these paths in spec.source.repository.path", ErrAmbiguous, strings.Join(parts, ", "))
}
