package restore

import (
	"context"
	"errors"
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
	"howdah.dev/howdah/pkg/repostore/location"
	"howdah.dev/howdah/pkg/volumelock"
	"howdah.dev/howdah/pkg/workload"
)

// ensureCluster creates the PostgresCluster, and records which one it is.
func (r *Reconciler) ensureCluster(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.restore.Status.Cluster != nil:
		return flow.Next
	case o.cluster != nil:
		o.restore.Status.Cluster = &v1alpha1.CreatedCluster{Name: o.cluster.Name, UID: o.cluster.UID}
		return flow.Save(v1alpha1.ReasonAwaitingVolumeLock, "PostgresCluster "+o.cluster.Name+" is created.")
	case o.repository == nil:
		return flow.Wait(v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf("BackupRepository %s was deleted. Create it again.", o.repositoryName()))
	}
	header, outcome := r.readHeader(o)
	if header == nil {
		return outcome
	}
	spec, admitted, err := newSpec(header, o.restore, archiveTo(o, o.restore.Status.Plan.Repository), o.provenance())
	if err == nil && !admitted.like(o.restore.Status.Plan.Accepted) {
		err = errors.New("what spec.destination.newCluster.acceptRecorded names has other values now than in status.plan.accepted: somebody has written to the " +
			"bucket, or the cluster that was backed up was changed or deleted since; find out which before you create another Restore")
	}
	if err != nil {
		return flow.Stop(v1alpha1.ReasonInvalidSpec, flow.Sentence(err.Error()))
	}
	return r.create(ctx, newCluster(o.restore, spec))
}

// readHeader reads the header of the backup of the plan.
func (r *Reconciler) readHeader(o *observed) (*backup.Header, flow.Outcome) {
	reading := flow.Poll(lookInterval, v1alpha1.ReasonPlanned, "The backup's record of its cluster is being read.")
	return r.readHeaderOf(o, o.restore.Status.Plan.Lineage, o.restore.Status.Plan.BackupID, reading)
}

// readHeaderOf reads what a backup says of its cluster; reading is the outcome while that takes. Nil: the outcome says why.
func (r *Reconciler) readHeaderOf(o *observed, lineage, id string, reading flow.Outcome) (*backup.Header, flow.Outcome) {
	repo := o.repository.DeepCopy()
	header, err, done := look(r.headers, o.restore, lineage+"/"+id, func(ctx context.Context) (*backup.Header, error) {
		store, err := r.Open(ctx, r.Live, repo)
		if err != nil {
			return nil, err
		}
		return backup.ReadOutline(ctx, store, lineage, id)
	})
	switch {
	case !done:
		return nil, reading
	case err != nil:
		r.headers.Forget(o.restore)
		return nil, unreadable(repo.Name, err)
	}
	return header, flow.Next
}

func (r *Reconciler) create(ctx context.Context, cluster *v1alpha1.PostgresCluster) flow.Outcome {
	err := r.Client.Create(ctx, cluster)
	switch {
	case apierrors.IsInvalid(err):
		return flow.Stop(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"The API server refuses the PostgresCluster: %v. Correct it in spec.destination.newCluster of another Restore.", err))
	case err != nil && !apierrors.IsAlreadyExists(err): // who created it is seen in the next pass
		return flow.Retry(fmt.Errorf("create PostgresCluster %s: %w", cluster.Name, err))
	}
	return flow.Save(v1alpha1.ReasonPlanned, "PostgresCluster "+cluster.Name+" is being created.")
}

func requestLock(_ context.Context, o *observed) flow.Outcome {
	return o.lock().Request(0, o.restore.Spec.MaxDowntime)
}

func awaitLock(_ context.Context, o *observed) flow.Outcome { return o.lock().Await() }

// runJob starts the Job that writes the data.
func (r *Reconciler) runJob(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.restore.Status.Handover == nil && o.job.Exists && o.repository != nil && r.job(o).Misplaced(o.job):
		if err := workload.Delete(ctx, r.Client, o.restore, jobName(o.restore), o.job); err != nil {
			return flow.Retry(err)
		}
		return flow.Wait(v1alpha1.ReasonRunning, "The Job waited for a node, and is being created again with the new settings of the cluster.")
	case o.restore.Status.Handover != nil || o.job.Exists && !o.job.Deleting:
		return flow.Next
	case o.job.Deleting:
		return flow.Poll(5*time.Second, v1alpha1.ReasonRunning, "A former Job is being deleted.")
	case o.repository == nil:
		return flow.Wait(v1alpha1.ReasonRepositoryNotFound, fmt.Sprintf("BackupRepository %s was deleted. Create it again.", o.repositoryName()))
	}
	if err := r.job(o).Ensure(ctx, r.Client); err != nil {
		return o.notEnsured(err)
	}
	return flow.Wait(v1alpha1.ReasonRunning, "The Job is starting.")
}

// notEnsured gives up where a name of the Job is taken, as the cluster may be stopped for it.
func (o *observed) notEnsured(err error) flow.Outcome {
	message := workload.Taken(err)
	if message == "" {
		return workload.NotEnsured(err)
	}
	o.restore.Status.Failure = volumelock.Fail(v1alpha1.ReasonNameConflict, "%s", message)
	return flow.Save(v1alpha1.ReasonRollingBack, message)
}

// bufferLimit is what the worker may take for its buffers, in bytes.
const bufferLimit = 96 << 20

func (r *Reconciler) job(o *observed) workload.Job {
	plan := o.restore.Status.Plan
	spec := agentapi.RestoreJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindRestore, Resource: "restores",
			Namespace: o.restore.Namespace, Name: o.restore.Name, UID: string(o.restore.UID),
		},
		Repository: location.PodConfig(o.repository), Lineage: plan.Lineage, BackupID: plan.BackupID,
		DataGeneration: plan.DataGeneration, MajorVersion: int(plan.MajorVersion), Timeline: plan.Timeline,
		LastWAL: plan.LastWAL, MemoryLimit: bufferLimit, InPlace: o.inPlace(),
		PreloadLibraries: string(o.cluster.Spec.PostgreSQL.Parameters["shared_preload_libraries"]),
	}
	into := o.restore.Spec.Destination.NewCluster
	spec.DisableSubscriptions, spec.LostSlots = into == nil || into.Subscriptions != v1alpha1.SubscriptionsEnabled, o.lostSlots()
	if o.discarding() && o.restore.Status.SafetyBackup != "" {
		spec.DiscardPrevious = o.restore.Status.Previous.DataGeneration
		spec.PreviousArchive = o.previousArchive()
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
		Name: jobName(o.restore), Owner: o.restore, Cluster: o.cluster.Name, Component: workload.ComponentRestore,
		Image: plan.Image, Agent: r.Agent, Args: []string{"restore"}, Spec: spec, Progress: &spec.Object,
		ClusterSpec: &o.cluster.Spec, DataClaim: o.lock().Volume().ClaimName, Limit: o.lock().TimeLeft(),
		S3Secret:   location.SecretName(o.repository),
		KeysSecret: location.KeysSecretName(o.repository), Resources: resourcesOf(o.cluster),
	}
}

// lostSlots are the declared slots that clients may have read from after the point that is restored, of the cluster whose data it is. The data may be
// from before they were declared, and know of none.
func (o *observed) lostSlots() (names []string) {
	cluster := o.source
	if o.inPlace() {
		cluster = o.cluster
	}
	if cluster == nil {
		return nil
	}
	for i := range cluster.Spec.ReplicationSlots {
		if slot := &cluster.Spec.ReplicationSlots[i]; slot.Ensure != v1alpha1.Absent {
			names = append(names, slot.Name)
		}
	}
	return names
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
func awaitJob(_ context.Context, o *observed) flow.Outcome {
	if o.restore.Status.Handover != nil || o.job.Ended() {
		return flow.Next
	}
	after := 15 * time.Second // for what only the pod tells, such as that its image can't be pulled
	if o.job.Complete || o.job.Failed {
		after = 2 * time.Second
	}
	return flow.Poll(after, o.job.Reason(v1alpha1.ReasonRunning), underWay(o.job))
}

// handOver offers the restored data to the db-controller.
func (r *Reconciler) handOver(ctx context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if status.Handover != nil {
		return flow.Next
	}
	var result agentapi.RestoreResult
	if !o.job.Result(&result) {
		return r.deleteJob(ctx, o, "The result of the Job can't be read any more, so it runs again.")
	}
	status.DisabledSubscriptions, status.DroppedSettings = result.DisabledSubscriptions, result.DroppedSettings
	status.Reached = &v1alpha1.ReachedPoint{
		LSN: result.ReachedLSN, Timeline: result.Timeline, FetchSeconds: result.FetchSeconds, ReplaySeconds: result.ReplaySeconds,
		TakenBytes: result.TakenBytes,
	}
	if result.LastCommit != nil {
		status.Reached.LastCommit = &metav1.MicroTime{Time: *result.LastCommit}
	}
	return o.lock().HandOver(v1alpha1.Handover{
		DataGeneration: result.DataGeneration, SystemIdentifier: result.SystemIdentifier,
		MajorVersion: int32(result.MajorVersion), Image: status.Plan.Image,
	})
}

// awaitRunning waits until the cluster accepts connections on the restored data, however long that takes: it has no other data.
func awaitRunning(_ context.Context, o *observed) flow.Outcome {
	return o.lock().AwaitRunning(0)
}

// finish gives the volumes back, and requests the first backup of the new lineage.
func finish(_ context.Context, o *observed) flow.Outcome {
	status := &o.restore.Status
	if o.cluster.Spec.Archive != nil {
		status.BackupRequest = &v1alpha1.BackupRequest{
			Cluster: o.cluster.Name, ClusterUID: o.cluster.UID, Token: status.VolumeLockRequest.Token, Purpose: v1alpha1.PurposeFirst,
		}
	}
	status.Failure = nil // it came too late
	o.lock().Withdraw()
	return flow.Next
}

// underWay says what the Job does, or what keeps it from doing it.
func underWay(job workload.State) string {
	if job.Message == "" {
		return "The backup is being fetched and WAL replayed. status.progress says how far that is."
	}
	return flow.Sentence(job.Message)
}
