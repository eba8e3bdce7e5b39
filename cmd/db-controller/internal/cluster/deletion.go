package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component/volume"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// finalBackupAsked: deletionPolicy wants one; left out, it does where there is an archive.
func finalBackupAsked(cluster *v1alpha1.PostgresCluster) bool {
	return ptr.Deref(cluster.Spec.DeletionPolicy.FinalBackup, cluster.Spec.Archive != nil)
}

// volumePolicy of the cluster; left out, volumes go where there is a final backup.
func volumePolicy(cluster *v1alpha1.PostgresCluster) v1alpha1.VolumePolicy {
	switch {
	case cluster.Spec.DeletionPolicy.Volumes != "":
		return cluster.Spec.DeletionPolicy.Volumes
	case finalBackupAsked(cluster):
		return v1alpha1.VolumesDelete
	}
	return v1alpha1.VolumesRetain
}

// wantsFinalBackup: one is due before anything goes. What never ran has nothing to back up, and once the volume is on
// its way there is nothing left to read.
func (w *world) wantsFinalBackup() bool {
	claim := w.claim(w.dataInstance())
	if !finalBackupAsked(w.cluster) || !w.hasRun() || claim == nil || !claim.DeletionTimestamp.IsZero() {
		return false
	}
	outcome, _ := protocol.BackupOutcomeFor(w.finalBackup, w.cluster.Status.BackupRequest)
	return outcome != protocol.BackupSucceeded
}

// keepOrder takes back that Kubernetes deletes all objects of the cluster at once and ahead of it, which a deletion in the
// foreground asks for (kubectl delete --cascade=foreground, Argo CD): the last backup needs them. In the end the deletion
// is over only when they are being deleted, all the same.
func (r *Reconciler) keepOrder(ctx context.Context, w *world) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, w.cluster, metav1.FinalizerDeleteDependents)
}

// askFinalBackup records the wish for the last backup; after one that failed, for another.
func (r *Reconciler) askFinalBackup(_ context.Context, w *world) flow.Outcome {
	if !w.wantsFinalBackup() {
		return flow.Next
	}
	wanted := w.cluster.Status.BackupRequest
	attempt := 0
	if wanted != nil {
		outcome, message := protocol.BackupOutcomeFor(w.finalBackup, wanted)
		if outcome != protocol.BackupFailed {
			return flow.Next
		}
		attempt = attemptOf(wanted.Token) + 1
		if again := endOf(w.finalBackup).Add(pauseBefore(attempt)); w.now.Before(again) {
			return flow.Poll(again.Sub(w.now), v1alpha1.ReasonAwaitingFinalBackup, fmt.Sprintf(
				"The final backup has failed: %s It is tried again at %s. %s", sentence(message), again.UTC().Format(time.TimeOnly+" MST"), withoutBackup))
		}
	}
	w.cluster.Status.BackupRequest = &v1alpha1.BackupRequest{
		Cluster: w.cluster.Name, ClusterUID: w.cluster.UID, Purpose: v1alpha1.PurposeFinal,
		Token: protocol.Token(w.cluster.UID, attempt),
	}
	return flow.Save(v1alpha1.ReasonAwaitingFinalBackup, "The deletion waits for the final backup. "+withoutBackup)
}

const withoutBackup = "To delete the cluster without one, set spec.deletionPolicy.finalBackup: false."

func (r *Reconciler) awaitFinalBackup(_ context.Context, w *world) flow.Outcome {
	if !w.wantsFinalBackup() {
		return flow.Next
	}
	_, message := protocol.BackupOutcomeFor(w.finalBackup, w.cluster.Status.BackupRequest)
	return flow.Poll(quietInterval, v1alpha1.ReasonAwaitingFinalBackup, fmt.Sprintf(
		"The deletion waits for Backup %s: %s %s", protocol.BackupName(*w.cluster.Status.BackupRequest), sentence(message), withoutBackup))
}

// attemptOf is the number at the end of a token.
func attemptOf(token string) int {
	attempt, err := strconv.Atoi(token[strings.LastIndex(token, ".")+1:])
	if err != nil {
		return 0
	}
	return attempt
}

// pauseBefore an attempt: a minute before the second, then twice as long each time, an hour at most.
func pauseBefore(attempt int) time.Duration {
	return min(time.Minute<<min(attempt-1, 10), time.Hour)
}

func endOf(backup *v1alpha1.Backup) time.Time {
	if backup.Status.CompletedAt != nil {
		return backup.Status.CompletedAt.Time
	}
	return backup.CreationTimestamp.Time
}

// sentence ends with a full stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// stopInstances stops PostgreSQL in order, and waits until all pods are gone.
func (r *Reconciler) stopInstances(ctx context.Context, w *world) flow.Outcome {
	if w.statefulSet() != nil && !w.idleSet() || w.orphaned() {
		if err := r.put(ctx, w, w.buildSet(0)); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(busyInterval, v1alpha1.ReasonDeleting, "PostgreSQL is being stopped.")
	}
	if !w.stopped() {
		return flow.Poll(busyInterval, v1alpha1.ReasonDeleting, "PostgreSQL is being stopped."+w.stuck())
	}
	return flow.Next
}

// releaseVolumes deletes the volumes, or leaves them behind with a label that says whose they were.
func (r *Reconciler) releaseVolumes(ctx context.Context, w *world) flow.Outcome {
	for _, claim := range w.volumesMade() {
		if !volume.Belongs(claim, w.cluster) || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.releaseVolume(ctx, w, claim); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

func (r *Reconciler) releaseVolume(ctx context.Context, w *world, claim *corev1.PersistentVolumeClaim) error {
	if volumePolicy(w.cluster) == v1alpha1.VolumesDelete {
		return r.remove(ctx, claim)
	}
	if claim.Labels[v1alpha1.LabelCluster] == "" {
		return nil
	}
	err := r.Client.Patch(ctx, volume.Retained(claim), client.MergeFrom(claim), client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("leave PersistentVolumeClaim %s behind: %w", claim.Name, err)
	}
	log.FromContext(ctx).Info("Left volume behind", "name", claim.Name)
	return nil
}

func (r *Reconciler) removeFinalizer(ctx context.Context, w *world) flow.Outcome {
	return flow.RemoveFinalizer(ctx, r.Client, w.cluster, Finalizer)
}
