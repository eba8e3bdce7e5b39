package restore

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/repository/location"
	"howdah.dev/howdah/pkg/workload"
)

// ensureCluster makes the PostgresCluster, and records which one it is.
func (r *Reconciler) ensureCluster(ctx context.Context, w *world) flow.Outcome {
	switch {
	case w.restore.Status.Cluster != nil:
		return flow.Next
	case w.cluster != nil:
		w.restore.Status.Cluster = &v1alpha1.CreatedCluster{Name: w.cluster.Name, UID: w.cluster.UID}
		return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, "PostgresCluster "+w.cluster.Name+" is made")
	case w.repository == nil:
		return flow.Wait(v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf("BackupRepository %s is gone; make it again", w.repositoryName()))
	}
	head, outcome := r.readHead(w)
	if head == nil {
		return outcome
	}
	spec, err := newSpec(head, w.restore, archiveTo(w, w.restore.Status.Plan.Repository))
	if err != nil {
		return flow.Stop(v1alpha1.ReasonInvalidSpec, err.Error())
	}
	return r.create(ctx, newCluster(w.restore, spec))
}

// readHead reads what the backup says of its cluster, which may take a while. Nil: the outcome says what about it.
func (r *Reconciler) readHead(w *world) (*backup.Head, flow.Outcome) {
	plan, repo := w.restore.Status.Plan, w.repository.DeepCopy()
	head, err, done := look(r.heads, w.restore, func(ctx context.Context) (*backup.Head, error) {
		store, err := r.open(ctx, r.live, repo)
		if err != nil {
			return nil, err
		}
		return backup.ReadHead(ctx, store, plan.Lineage, plan.BackupID)
	})
	switch {
	case !done:
		return nil, flow.Poll(lookInterval, v1alpha1.ReasonPlanned, "reading what the backup says of its cluster")
	case err != nil:
		r.heads.Forget(w.restore)
		return nil, unreadable(repo.Name, err)
	}
	return head, flow.Next
}

func (r *Reconciler) create(ctx context.Context, cluster *v1alpha1.PostgresCluster) flow.Outcome {
	err := r.writer.Create(ctx, cluster)
	switch {
	case apierrors.IsInvalid(err):
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"the API server refuses the PostgresCluster: %v; correct it in spec.destination.newCluster", err))
	case err != nil && !apierrors.IsAlreadyExists(err): // who made it is seen in the next pass
		return flow.Retry(fmt.Errorf("create PostgresCluster %s: %w", cluster.Name, err))
	}
	return flow.Save(v1alpha1.ReasonPlanned, "PostgresCluster "+cluster.Name+" is being made")
}

// askHold asks the db-controller for the volume.
func (r *Reconciler) askHold(_ context.Context, w *world) flow.Outcome {
	if w.restore.Status.VolumeLockRequest != nil {
		return flow.Next
	}
	made := w.restore.Status.Cluster
	w.restore.Status.VolumeLockRequest = &v1alpha1.VolumeLockRequest{
		Cluster: made.Name, ClusterUID: made.UID, Token: protocol.Token(w.restore.UID, 0), Mode: v1alpha1.VolumeLockStopped,
	}
	if w.inPlace() {
		w.restore.Status.DownAt = &metav1.Time{Time: w.now}
	}
	return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, "asking the db-controller for the volume")
}

// awaitHold waits until the volume is ours. A refusal is a failure, which plan sees to.
func (r *Reconciler) awaitHold(_ context.Context, w *world) flow.Outcome {
	answer := w.answer()
	switch {
	case w.restore.Status.Handover != nil:
		return flow.Next
	case answer == nil:
		return flow.Wait(v1alpha1.ReasonAwaitingVolumeLock, "waiting for the db-controller to grant the volume")
	case answer.State != v1alpha1.VolumeLockGranted:
		return flow.Wait(v1alpha1.ReasonAwaitingVolumeLock, orElse(answer.Message, "waiting for the db-controller to grant the volume"))
	case len(answer.Volumes) == 0:
		return flow.Wait(v1alpha1.ReasonAwaitingVolumeLock, "the db-controller granted no volume")
	}
	return flow.Next
}

// runJob starts the Job that writes the data.
func (r *Reconciler) runJob(ctx context.Context, w *world) flow.Outcome {
	switch {
	case w.restore.Status.Handover != nil || w.job.Exists && !w.job.Deleting:
		return flow.Next
	case w.job.Deleting:
		return flow.Poll(5*time.Second, v1alpha1.ReasonRunning, "a former Job is going away")
	case w.repository == nil:
		return flow.Wait(v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf("BackupRepository %s is gone; make it again", w.repositoryName()))
	}
	if err := r.job(w).Ensure(ctx, r.writer); err != nil {
		return flow.Retry(err)
	}
	return flow.Wait(v1alpha1.ReasonRunning, "the Job is starting")
}

// bufferLimit is what the worker may take for its buffers, in bytes.
const bufferLimit = 96 << 20

func (r *Reconciler) job(w *world) workload.Job {
	plan := w.restore.Status.Plan
	spec := agentapi.RestoreJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindRestore, Resource: "restores",
			Namespace: w.restore.Namespace, Name: w.restore.Name, UID: string(w.restore.UID),
		},
		Repository: location.PodConfig(w.repository), Lineage: plan.Lineage, BackupID: plan.BackupID,
		DataGeneration: plan.DataGeneration, MajorVersion: int(plan.MajorVersion), Timeline: plan.Timeline,
		LastWAL: plan.LastWAL, MemoryLimit: bufferLimit, InPlace: w.inPlace(),
	}
	if into := w.restore.Spec.Destination.NewCluster; into != nil {
		spec.DisableSubscriptions = into.Subscriptions != v1alpha1.SubscriptionsEnabled
	}
	if w.discarding() && w.restore.Status.SafetyBackup != "" {
		spec.DiscardPrevious = w.restore.Status.Previous.DataGeneration
	}
	if stop := plan.StopAt; stop != nil {
		spec.Target = agentapi.RestoreTarget{
			LSN: stop.LSN, RestorePoint: stop.RestorePoint, XID: stop.XID, Immediate: stop.Immediate, Inclusive: stop.Inclusive,
		}
		if at, err := time.Parse(time.RFC3339Nano, stop.Time); err == nil {
			spec.Target.Time = &at
		}
	}
	return workload.Job{
		Name: jobName(w.restore), Owner: w.restore, Cluster: w.cluster.Name, Component: workload.ComponentRestore,
		Image: plan.Image, Agent: r.agent, Args: []string{"restore"}, Spec: spec, Progress: &spec.Object,
		DataClaim: w.answer().Volumes[0].ClaimName, S3Secret: location.SecretName(w.repository),
		KeysSecret: location.KeysSecretName(w.repository), Resources: resourcesOf(w.cluster),
	}
}

// resourcesOf are the cluster's: the Job runs in its place.
func resourcesOf(cluster *v1alpha1.PostgresCluster) corev1.ResourceRequirements {
	given := cluster.Spec.Resources
	if len(given.Requests) == 0 && len(given.Limits) == 0 {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		}}
	}
	return corev1.ResourceRequirements{Requests: given.Requests, Limits: given.Limits}
}

// awaitJob waits for the Job's end. Its failure is plan's.
func (r *Reconciler) awaitJob(_ context.Context, w *world) flow.Outcome {
	if w.restore.Status.Handover != nil || w.job.Ended() {
		return flow.Next
	}
	after := 15 * time.Second // for what only the pod tells, such as that its image can't be pulled
	if w.job.Complete || w.job.Failed {
		after = 2 * time.Second
	}
	return flow.Poll(after, v1alpha1.ReasonRunning, orElse(w.job.Message, "fetching the backup and replaying WAL; see status.progress"))
}

// handOver offers the restored data to the db-controller.
func (r *Reconciler) handOver(ctx context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if status.Handover != nil {
		return flow.Next
	}
	var result agentapi.RestoreResult
	if !w.job.Result(&result) {
		return r.deleteJob(ctx, w, "the Job's result can't be read any more; it is asked again")
	}
	status.Handover = &v1alpha1.Handover{
		Token: status.VolumeLockRequest.Token, DataGeneration: result.DataGeneration, SystemIdentifier: result.SystemIdentifier,
		MajorVersion: int32(result.MajorVersion), Image: status.Plan.Image,
	}
	status.HandedOverAt = &metav1.Time{Time: w.now}
	status.DisabledSubscriptions = result.DisabledSubscriptions
	status.Reached = &v1alpha1.ReachedPoint{
		LSN: result.ReachedLSN, Timeline: result.Timeline, FetchSeconds: result.FetchSeconds, ReplaySeconds: result.ReplaySeconds,
		TakenBytes: result.TakenBytes,
	}
	if result.LastCommit != nil {
		status.Reached.LastCommit = &metav1.MicroTime{Time: *result.LastCommit}
	}
	return flow.Save(v1alpha1.ReasonAwaitingAdoption, "the restored data is handed over")
}

// awaitAdopted waits until the cluster takes connections on the restored data.
func (r *Reconciler) awaitAdopted(_ context.Context, w *world) flow.Outcome {
	if protocol.Adopted(w.cluster, w.restore.UID, w.restore.Status.VolumeLockRequest, w.restore.Status.Handover) && clusterReady(w.cluster) {
		return flow.Next
	}
	return flow.Wait(v1alpha1.ReasonAwaitingAdoption, "the data is restored; waiting until the cluster takes connections on it; it says "+stateOf(w.cluster))
}

// finish gives the cluster free, and asks for the first backup of its new lineage.
func (r *Reconciler) finish(_ context.Context, w *world) flow.Outcome {
	status := &w.restore.Status
	if w.cluster.Spec.Archive != nil {
		status.BackupRequest = &v1alpha1.BackupRequest{
			Cluster: w.cluster.Name, ClusterUID: w.cluster.UID, Token: status.VolumeLockRequest.Token, Purpose: v1alpha1.PurposeFirst,
		}
	}
	status.VolumeLockRequest, status.Handover = nil, nil
	return flow.Next
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
