package reading

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/instances"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/majorupdate"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// readPeers reads who requests the volumes and who uses them. Where that decides about starting PostgreSQL, granting the
// volume lock or dropping it, everything is read from the API server itself. Volumes that this very pass creates, and meets none in
// creating them, are nobody's yet; and of a first start all is known.
func (r *Reader) readPeers(ctx context.Context, o *observed.Cluster) error {
	if err := r.readRequests(ctx, r.Client, o); err != nil {
		return err
	}
	reader := client.Reader(r.Client)
	if o.IdleSet() && !o.Initializing && !o.Untouched && !instances.FirstStart(o) || len(o.Requests) > 0 || len(o.Cluster.Status.VolumeLocks) > 0 || o.Deleting() || o.EndsElections() || removed(o) {
		reader, o.Fresh = r.Live, true
		if err := r.readFresh(ctx, o); err != nil {
			return err
		}
	}
	if err := r.readPods(ctx, reader, o); err != nil {
		return err
	}
	if err := r.readLed(ctx, o); err != nil {
		return err
	}
	if request := o.Cluster.Status.BackupRequest; request != nil {
		backup := &v1alpha1.Backup{}
		found, err := observed.Read(ctx, reader, o.Cluster.Namespace, protocol.BackupName(*request), backup)
		if err != nil {
			return err
		}
		switch {
		case found && request.Purpose == v1alpha1.PurposeFirst:
			o.FirstBackup = backup
		case found:
			o.FinalBackup = backup
		}
	}
	return nil
}

// removed says whether there are volumes of instances that were removed. They may be deleted.
func removed(o *observed.Cluster) bool {
	return slices.ContainsFunc(observed.ExistingVolumes(o), func(claim *corev1.PersistentVolumeClaim) bool {
		return o.Names.Ordinal(protocol.InstanceOf(claim.Name)) >= o.Wanted() && claim.DeletionTimestamp.IsZero()
	})
}

// readFresh reads from the API server itself who requests the volumes and how many pods there may be. Its error is ErrStale where the
// PostgresCluster was another one by then.
func (r *Reader) readFresh(ctx context.Context, o *observed.Cluster) error {
	if err := r.readRequests(ctx, r.Live, o); err != nil {
		return err
	}
	set := observed.Named(&appsv1.StatefulSet{}, o.Names.StatefulSet())
	found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, set.GetName(), set)
	if err != nil {
		return err
	}
	if found {
		r.remember(o, set)
	}
	// Last: whose lock the StatefulSet speaks of has to be known from a status that is not older. See volumegrant.Fenced.
	return r.checkFresh(ctx, o)
}

// readLed reads from the API server itself whether clients were led to what was adopted, and how the last primary has ended. It comes after the
// pods: one that is seen to have ended leads nobody any more, and has said what it had to say.
func (r *Reader) readLed(ctx context.Context, o *observed.Cluster) error {
	if !o.Fresh || len(o.Cluster.Status.VolumeLocks) == 0 && !o.Deleting() {
		return nil
	}
	slice := observed.Named(&discoveryv1.EndpointSlice{}, o.Names.Primary())
	found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, slice.GetName(), slice)
	if err != nil {
		return err
	}
	if delete(o.Live, observed.Key("EndpointSlice", slice.GetName())); found {
		r.remember(o, slice)
	}
	return nil
}

func (r *Reader) checkFresh(ctx context.Context, o *observed.Cluster) error {
	fresh := &v1alpha1.PostgresCluster{}
	found, err := observed.Read(ctx, r.Live, o.Cluster.Namespace, o.Cluster.Name, fresh)
	if err != nil {
		return err
	}
	if !found || fresh.ResourceVersion != o.Cluster.ResourceVersion {
		return ownwrites.ErrStale
	}
	return nil
}

func (r *Reader) readRequests(ctx context.Context, reader client.Reader, o *observed.Cluster) error {
	restores, upgrades := &v1alpha1.RestoreList{}, &v1alpha1.UpgradeList{}
	inNamespace := client.InNamespace(o.Cluster.Namespace)
	if err := reader.List(ctx, restores, inNamespace); err != nil {
		return fmt.Errorf("list Restores: %w", err)
	}
	if err := reader.List(ctx, upgrades, inNamespace); err != nil {
		return fmt.Errorf("list Upgrades: %w", err)
	}
	manager.SortByName(restores.Items)
	manager.SortByName(upgrades.Items)
	o.Requests = protocol.LockRequests(o.Cluster, restores.Items, upgrades.Items)
	writers := protocol.Writers(o.Cluster, restores.Items, upgrades.Items)
	o.Released = protocol.Release(o.Cluster, protocol.ReleaseRequests(o.Cluster, restores.Items, upgrades.Items), o.Requests, writers)
	o.Operation = operation(o.Cluster, restores.Items, upgrades.Items)
	o.Undoable, o.PreviousOn = undoable(o, writers)
	o.MajorUpdate = majorUpdate(o, restores.Items, upgrades.Items)
	o.Restore = nil
	for i := range restores.Items {
		if o.BootstrapsByRestore() && restores.Items[i].Name == o.Cluster.Spec.Bootstrap.Restore.Name {
			o.Restore = &restores.Items[i]
		}
	}
	return nil
}

// majorUpdate is what the upgrade-controller does about a version that is pending, as soon as it knows of this spec.
func majorUpdate(o *observed.Cluster, restores []v1alpha1.Restore, upgrades []v1alpha1.Upgrade) string {
	if !majorupdate.Wanted(o.Cluster) {
		return ""
	}
	cluster := o.Cluster.DeepCopy()
	cluster.Status.ObservedGeneration = cluster.Generation
	return majorupdate.Decide(majorupdate.Facts{Cluster: cluster, Upgrades: upgrades, Restores: restores, Images: o.Images, Now: o.Now}).Message
}

// operation is a Restore or an Upgrade of the cluster that has not ended; empty: there is none.
func operation(cluster *v1alpha1.PostgresCluster, restores []v1alpha1.Restore, upgrades []v1alpha1.Upgrade) string {
	goesOn := func(conditions []metav1.Condition) bool {
		end := meta.FindStatusCondition(conditions, v1alpha1.ConditionSucceeded)
		return end == nil || end.Status == metav1.ConditionUnknown
	}
	for i := range restores {
		if restores[i].Spec.Destination.ClusterName() == cluster.Name && goesOn(restores[i].Status.Conditions) {
			return v1alpha1.KindRestore + " " + restores[i].Name
		}
	}
	for i := range upgrades {
		if upgrades[i].Spec.Cluster.Name == cluster.Name && goesOn(upgrades[i].Status.Conditions) {
			return v1alpha1.KindUpgrade + " " + upgrades[i].Name
		}
	}
	return ""
}

// undoable is a Restore or an Upgrade that a person may still undo; empty: there is none. previousOn are all of them, and those that could not be
// undone, by the instances whose volumes have their previous data.
func undoable(o *observed.Cluster, writers []protocol.Writer) (first string, previousOn map[string]string) {
	previousOn = map[string]string{}
	for _, writer := range writers {
		name := writer.Kind + " " + writer.Name
		claim := o.Claim(o.Names.Ordinal(writer.Instance))
		replaced := writer.VolumeUID != "" && claim != nil && claim.UID != writer.VolumeUID // by one that has nothing of it
		if (writer.Undoable || writer.Left) && !replaced {
			previousOn[writer.Instance] = name
		}
		if writer.Undoable {
			first = cmp.Or(first, name)
		}
	}
	return first, previousOn
}

func (r *Reader) readPods(ctx context.Context, reader client.Reader, o *observed.Cluster) error {
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{v1alpha1.LabelCluster: o.Cluster.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	if err := reader.List(ctx, pods, client.InNamespace(o.Cluster.Namespace), labels); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	manager.SortByName(pods.Items)
	for _, pod := range pods.Items {
		switch kind := pod.Labels[v1alpha1.LabelComponent]; {
		case kind == workload.ComponentInstance:
			o.Pods = append(o.Pods, pod)
		case kind == workload.ComponentBackup && !observed.PodEnded(&pod):
			o.BackingUp = pod.Name
		case workload.EndedWell(&pod): // it has written all that it will
		case slices.Contains(workload.WritingComponents, kind) && !observed.PodEnded(&pod):
			o.Workers = append(o.Workers, pod)
		}
	}
	return nil
}
