package reading

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/certificate"
	"howdah.dev/howdah/cmd/db-controller/internal/component/secret"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/protocol"
)

func (r *Reader) readSecrets(ctx context.Context, o *observed.Cluster) error {
	names := o.Names.Secrets()
	if !o.Cluster.Spec.SuperuserAccess && superuserSecretOf(o.Cluster) == "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == o.Names.Superuser() })
	}
	if len(o.Poolers)+len(o.Cluster.Status.Poolers) == 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return name == o.Names.Pooler() })
	}
	if o.FailoverDrill == nil && o.Cluster.Status.FailoverDrill == nil {
		names = slices.DeleteFunc(names, func(name string) bool { return name == o.Names.FailoverDrill() })
	}
	if podMonitor(o.Cluster) == nil && o.Cluster.Status.PodMonitor == "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == o.Names.Metrics() })
	}
	for _, name := range names {
		if o.Own.Complete() {
			if known := r.Secrets.Get(o.Cluster, name, o.Now); known != nil {
				o.Live[observed.Key("Secret", name)] = known
			}
			continue
		}
		found, err := r.Secrets.Read(ctx, r.Client, o.Cluster, name, o.Now)
		if err != nil {
			return err
		}
		if found != nil {
			o.Live[observed.Key("Secret", name)] = found
		}
	}
	if s := o.Secret(o.Names.Authority()); s != nil && metav1.IsControlledBy(s, o.Cluster) {
		// One that can't be read is replaced by its step.
		o.Authority, _ = certificate.ParseAuthority(s.Data[secret.KeyAuthority], s.Data[secret.KeyAuthorityKey])
	}
	return nil
}

// readPoolers finds the poolers that need the cluster's certificate.
func (r *Reader) readPoolers(ctx context.Context, o *observed.Cluster) error {
	poolers := &v1alpha1.PoolerList{}
	if err := r.Client.List(ctx, poolers, client.InNamespace(o.Cluster.Namespace)); err != nil {
		return fmt.Errorf("list Poolers: %w", err)
	}
	o.Poolers = protocol.PoolersOf(o.Cluster, poolers.Items)
	return nil
}

// readFailoverDrill finds the drill whose turn it is.
func (r *Reader) readFailoverDrill(ctx context.Context, o *observed.Cluster) error {
	drills := &v1alpha1.FailoverDrillList{}
	if err := r.Client.List(ctx, drills, client.InNamespace(o.Cluster.Namespace)); err != nil {
		return fmt.Errorf("list FailoverDrills: %w", err)
	}
	o.FailoverDrill = protocol.FailoverDrillOf(o.Cluster, drills.Items)
	return nil
}

func superuserSecretOf(cluster *v1alpha1.PostgresCluster) string {
	if cluster.Status.Connection == nil {
		return ""
	}
	return cluster.Status.Connection.SuperuserSecret
}
