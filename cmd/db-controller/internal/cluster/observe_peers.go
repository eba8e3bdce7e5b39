package cluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/ownwrites"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/workload"
)

// readPeers reads who asks for the volumes and who uses them. Where that decides about starting PostgreSQL, granting a
// hold or dropping one, everything is read from the API server itself. Volumes that this very pass makes, and meets none in
// making them, are nobody's yet; and of a first start all is known.
func (r *Reconciler) readPeers(ctx context.Context, w *world) error {
	if err := r.readAsks(ctx, r.Client, w); err != nil {
		return err
	}
	reader := client.Reader(r.Client)
	if w.idleSet() && !w.initializing && !w.untouched && !w.firstStart() || len(w.asks) > 0 || len(w.cluster.Status.VolumeLocks) > 0 || w.deleting() || w.endsElections() {
		reader, w.fresh = r.Live, true
		if err := r.readFresh(ctx, w); err != nil {
			return err
		}
	}
	if err := r.readPods(ctx, reader, w); err != nil {
		return err
	}
	if request := w.cluster.Status.BackupRequest; request != nil {
		backup := &v1alpha1.Backup{}
		found, err := read(ctx, r.Client, w.cluster.Namespace, protocol.BackupName(*request), backup)
		if err != nil {
			return err
		}
		if found {
			w.finalBackup = backup
		}
	}
	return nil
}

// readFresh reads from the API server itself who asks for the volumes and how many pods there may be.
func (r *Reconciler) readFresh(ctx context.Context, w *world) error {
	if err := r.checkFresh(ctx, w); err != nil {
		return err
	}
	if err := r.readAsks(ctx, r.Live, w); err != nil {
		return err
	}
	set := &appsv1.StatefulSet{}
	found, err := read(ctx, r.Live, w.cluster.Namespace, w.names.StatefulSet(), set)
	if found {
		r.remember(w, set)
	}
	return err
}

func (r *Reconciler) checkFresh(ctx context.Context, w *world) error {
	fresh := &v1alpha1.PostgresCluster{}
	found, err := read(ctx, r.Live, w.cluster.Namespace, w.cluster.Name, fresh)
	if err != nil {
		return err
	}
	if !found || fresh.ResourceVersion != w.cluster.ResourceVersion {
		return ownwrites.ErrStale
	}
	return nil
}

func (r *Reconciler) readAsks(ctx context.Context, reader client.Reader, w *world) error {
	restores, upgrades := &v1alpha1.RestoreList{}, &v1alpha1.UpgradeList{}
	inNamespace := client.InNamespace(w.cluster.Namespace)
	if err := reader.List(ctx, restores, inNamespace); err != nil {
		return fmt.Errorf("list Restores: %w", err)
	}
	if err := reader.List(ctx, upgrades, inNamespace); err != nil {
		return fmt.Errorf("list Upgrades: %w", err)
	}
	w.asks = protocol.LockRequests(w.cluster, restores.Items, upgrades.Items)
	w.released = protocol.Release(w.cluster, restores.Items, w.asks)
	w.restore = nil
	for i := range restores.Items {
		if w.bootstrapsByRestore() && restores.Items[i].Name == w.cluster.Spec.Bootstrap.Restore.Name {
			w.restore = &restores.Items[i]
		}
	}
	return nil
}

func (r *Reconciler) readPods(ctx context.Context, reader client.Reader, w *world) error {
	pods := &corev1.PodList{}
	labels := client.MatchingLabels{v1alpha1.LabelCluster: w.cluster.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	if err := reader.List(ctx, pods, client.InNamespace(w.cluster.Namespace), labels); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for _, pod := range pods.Items {
		switch kind := pod.Labels[v1alpha1.LabelComponent]; {
		case kind == workload.ComponentInstance:
			w.pods = append(w.pods, pod)
		case workload.EndedWell(&pod): // it has written all that it will
		case slices.Contains(workload.WritingComponents, kind) && !ended(&pod):
			w.workers = append(w.workers, pod)
		}
	}
	return nil
}

// ended: kubelet has said that every container of the pod has ended for good.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
