package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/backup"
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

// ofCluster are the lineages of the cluster that is asked for: that of our namespace, else the only one of the name. A lineage without a
// readable lineage.json belongs to the cluster that its manifests name. If that is the one that is asked for, its newest data may be in there, so
// the other lineages are not taken instead.
func ofCluster(ctx context.Context, store objstore.Store, q Question) ([]layout.Lineage, error) {
	names, err := layout.Lineages(ctx, store)
	if err != nil {
		return nil, err
	}
	var found, elsewhere []layout.Lineage
	var former []string // of clusters that had the name before
	damaged := map[string]error{}
	for _, name := range names {
		owner, err := layout.ReadLineage(ctx, store, name)
		if errors.Is(err, objstore.ErrNotFound) || layout.Damaged(err) {
			damaged[name] = err
			owner, err = backedUp(ctx, store, name)
		}
		switch {
		case err != nil:
			return nil, err
		case owner.Lineage == "": // nothing in it can be restored
		case q.Cluster != "" && owner.Writer.Name != q.Cluster:
		case q.ClusterUID != "" && owner.Writer.UID != q.ClusterUID:
			if owner.Writer.Namespace == q.Namespace {
				former = append(former, "lineages/"+owner.Lineage)
			}
		case q.Cluster != "" && owner.Writer.Namespace == q.Namespace:
			found = append(found, owner)
		default:
			elsewhere = append(elsewhere, owner)
		}
	}
	switch {
	case len(found) > 0:
		return found, usable(found, damaged)
	case len(elsewhere) == 0 && q.Cluster == "":
		return nil, fmt.Errorf("%w: the repository is empty", ErrNotThere)
	case len(elsewhere) == 0 && len(former) > 0:
		return nil, fmt.Errorf("%w: the repository has no data of the existing cluster %s, only of an earlier one with the same name; to restore that, write its path in "+
			"spec.source.repository.path: %s", ErrNotThere, q.Cluster, strings.Join(former[:min(len(former), maxFormer)], ", "))
	case len(elsewhere) == 0:
		return nil, fmt.Errorf("%w: the repository has no data of a cluster %s", ErrNotThere, q.Cluster)
	}
	if err := ofOne(elsewhere); err != nil {
		return nil, err
	}
	return elsewhere, usable(elsewhere, damaged)
}

// maxFormer is how many lineages of former clusters are named.
const maxFormer = 5

// errFound ends a list early.
var errFound = errors.New("found")

// backedUp is a lineage as far as a manifest tells, for when lineage.json doesn't. It is empty if no manifest can be read.
func backedUp(ctx context.Context, store objstore.Store, name string) (layout.Lineage, error) {
	lineage := layout.Lineage{}
	err := backup.Each(ctx, store, name, func(e backup.Entry) error {
		switch {
		case errors.Is(e.Err, objstore.ErrNotFound), errors.Is(e.Err, backup.ErrCorrupt), errors.Is(e.Err, backup.ErrFormat):
			return nil
		case e.Err != nil:
			return e.Err
		}
		cluster := e.Header.Cluster
		lineage = layout.Lineage{Lineage: name, Writer: layout.Writer{UID: cluster.UID, Namespace: cluster.Namespace, Name: cluster.Name}}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return lineage, err
}

// usable names the first damaged one among the lineages of a cluster.
func usable(lineages []layout.Lineage, damaged map[string]error) error {
	for _, l := range lineages {
		err := damaged[l.Lineage]
		if errors.Is(err, objstore.ErrNotFound) {
			err = fmt.Errorf("%w: %s is missing", objstore.ErrCorrupt, layout.LineageKey(l.Lineage))
		}
		if err != nil {
			return fmt.Errorf("lineage %s of the cluster can't be read: %w; to restore from another lineage, name its path, such as lineages/7401234567890123456-g1, in spec.source.repository.path",
				l.Lineage, err)
		}
	}
	return nil
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
