package reading

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/podmonitor"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/customqueries"
)

// readQueries reads a person's own queries for metrics. Their ConfigMaps are not the cluster's, so the cache doesn't have them.
func (r *Reader) readQueries(ctx context.Context, o *observed.Cluster) error {
	if o.Cluster.Spec.Monitoring == nil {
		return nil
	}
	collection := &customqueries.Collection{}
	for _, from := range o.Cluster.Spec.Monitoring.CustomQueriesConfigMap {
		source := fmt.Sprintf("key %s of ConfigMap %s", from.Key, from.Name)
		configMap := &corev1.ConfigMap{}
		found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, from.Name, configMap)
		content, has := configMap.Data[from.Key]
		switch {
		case err != nil:
			return err
		case !found:
			collection.Refuse(source, "there is no such ConfigMap: create it")
		case !has:
			collection.Refuse(source, "the ConfigMap has no such key: write the queries there")
		default:
			collection.Add(source, content)
		}
	}
	database, _ := secret.Application(o.Cluster)
	for i := range collection.Queries {
		if len(collection.Queries[i].Databases) == 0 {
			collection.Queries[i].Databases = []string{database}
		}
	}
	o.Queries, o.RefusedQueries = collection.Queries, collection.Problems
	return nil
}

// podMonitor that spec wants; nil: none.
func podMonitor(cluster *v1alpha1.PostgresCluster) *v1alpha1.PodMonitor {
	if cluster.Spec.Monitoring == nil {
		return nil
	}
	return cluster.Spec.Monitoring.PodMonitor
}

// readPodMonitor reads the PodMonitor from the API server itself, as a cache of a kind that may be missing would never be complete.
func (r *Reader) readPodMonitor(ctx context.Context, o *observed.Cluster) error {
	if podMonitor(o.Cluster) == nil && o.Cluster.Status.PodMonitor == "" {
		return nil
	}
	live := podmonitor.New()
	found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, o.Names.PodMonitor(), live)
	if meta.IsNoMatchError(err) {
		o.NoPodMonitors = true
		return nil
	}
	if found {
		o.Live[observed.Key(live.GetKind(), live.GetName())] = live
	}
	return err
}
