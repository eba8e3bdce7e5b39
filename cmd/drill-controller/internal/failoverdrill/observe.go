package failoverdrill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// observed is everything that a pass has seen. Steps change only the status of drill.
type observed struct {
	drill *v1alpha1.FailoverDrill
	now   time.Time
	// endedBefore: it had ended before this pass.
	endedBefore bool
	cluster     *v1alpha1.PostgresCluster // nil: there is none of that name
	writer      workload.State
	// others are what else may be done to the cluster. They are looked at until the fault is decided on.
	backups  []v1alpha1.Backup
	restores []v1alpha1.Restore
	upgrades []v1alpha1.Upgrade
	drills   []v1alpha1.FailoverDrill
}

// observe does every read of a pass.
func (r *Reconciler) observe(ctx context.Context, drill *v1alpha1.FailoverDrill) (*observed, error) {
	o := &observed{drill: drill, now: r.Now(), endedBefore: drill.Status.CompletedAt != nil}
	if o.endedBefore {
		return o, nil
	}
	cluster := &v1alpha1.PostgresCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: drill.Namespace, Name: drill.Spec.Cluster.Name}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return o, fmt.Errorf("read PostgresCluster %s: %w", drill.Spec.Cluster.Name, err)
	}
	if err == nil {
		o.cluster = cluster
	}
	if o.writer, err = workload.Observe(ctx, r.Client, r.Live, drill, protocol.FailoverDrillName(drill.Name)); err != nil {
		return o, err
	}
	o.writer.Explain(ctx, r.Live, drill.Namespace)
	if o.decided() {
		return o, nil
	}
	return o, r.observeOthers(ctx, o)
}

func (r *Reconciler) observeOthers(ctx context.Context, o *observed) error {
	backups, restores := &v1alpha1.BackupList{}, &v1alpha1.RestoreList{}
	upgrades, drills := &v1alpha1.UpgradeList{}, &v1alpha1.FailoverDrillList{}
	for _, list := range []client.ObjectList{backups, restores, upgrades, drills} {
		if err := r.Client.List(ctx, list, client.InNamespace(o.drill.Namespace)); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	manager.SortByName(backups.Items)
	manager.SortByName(restores.Items)
	manager.SortByName(upgrades.Items)
	manager.SortByName(drills.Items)
	o.backups, o.restores, o.upgrades, o.drills = backups.Items, restores.Items, upgrades.Items, drills.Items
	return nil
}

// decided: the fault was decided on, so it may have been caused.
func (o *observed) decided() bool {
	request := o.drill.Status.Request
	return request != nil && request.Inject != nil
}

// response of the db-controller; nil: there is none.
func (o *observed) response() *v1alpha1.ClusterFailoverDrill {
	if o.cluster == nil {
		return nil
	}
	return protocol.FailoverDrillResponse(o.cluster, o.drill)
}

// instance of the cluster; nil: its status has none of that name.
func (o *observed) instance(name string) *v1alpha1.InstanceStatus {
	for i := range o.cluster.Status.Instances {
		if o.cluster.Status.Instances[i].Name == name {
			return &o.cluster.Status.Instances[i]
		}
	}
	return nil
}

// victim is the instance that the fault is to hit; nil: it is not known.
func (o *observed) victim() *v1alpha1.InstanceStatus {
	fault := o.drill.Spec.Fault
	switch {
	case fault.Type != v1alpha1.FaultStopReplica:
		return o.instance(o.cluster.Status.Primary)
	case fault.Instance != "":
		return o.instance(fault.Instance)
	}
	for _, instance := range slices.Backward(o.cluster.Status.Instances) {
		if instance.Name != o.cluster.Status.Primary && o.cluster.Spec.Delay(instance.Name) == 0 {
			return o.instance(instance.Name)
		}
	}
	return nil
}
