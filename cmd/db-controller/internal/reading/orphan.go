package reading

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/orphan"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// readOrphan reads the record of a database that was released, where there may be one: before the cluster has begun, once it has taken a
// database over, and in its deletion. The objects that the record speaks of are read from the API server itself.
func (r *Reader) readOrphan(ctx context.Context, o *observed.Cluster) error {
	if o.Begun() && !o.Deleting() && o.Cluster.Status.Identity == "" {
		return nil
	}
	reader := client.Reader(r.Client)
	if o.Deleting() {
		reader = r.Live // what was decided before may not be seen in the cache yet
	}
	configMap := &corev1.ConfigMap{}
	found, err := observed.Read(ctx, reader, o.Cluster.Namespace, o.Names.Released(), configMap)
	if err != nil {
		return err
	}
	if found {
		o.OrphanMap = configMap
	}
	if found && configMap.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy {
		if o.Orphan, err = orphan.Parse(configMap); err != nil {
			o.OrphanDamage = err.Error()
		}
	}
	if o.Orphan != nil || o.Deleting() && o.Cluster.Spec.DeletionPolicy.Database == v1alpha1.DatabaseOrphan {
		return r.readParts(ctx, o)
	}
	return nil
}

func (r *Reader) readParts(ctx context.Context, o *observed.Cluster) error {
	for _, part := range orphan.Parts(o.Cluster, o.Orphan) {
		kind := part.GroupVersionKind()
		found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, part.Name, part)
		if err != nil {
			return err
		}
		if found {
			part.SetGroupVersionKind(kind)
			o.Parts = append(o.Parts, part)
		}
	}
	return nil
}
