package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/workload"
)

// workerMemory is what a worker's pod may use, whatever the size of the database, unless that has very many files.
const workerMemory = "256Mi"

// ensureJob makes the Job of the plan, after the one of the attempt before is gone.
func (r *Reconciler) ensureJob(ctx context.Context, o *observed) flow.Outcome {
	switch {
	case o.job.Taken():
		return flow.Poll(storeRetry, v1alpha1.ReasonNameConflict, o.job.Message)
	case r.misplaced(o):
		if err := workload.Delete(ctx, r.Client, o.backup, jobName(o.backup, o.backup.Status.Plan.Attempt), o.job); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, fmt.Sprintf("Job %s waited for a node, and is being created again with the new settings.",
			jobName(o.backup, o.backup.Status.Plan.Attempt)))
	case o.job.Exists:
		r.keepPlace(o)
		return flow.Next
	case o.planned == nil:
		return flow.Poll(storeRetry, v1alpha1.ReasonRepositoryNotFound, repositoryGone(o))
	case r.Deletions.Locked(o.backup.Status.Plan.Lineage):
		return flow.Poll(lockedPause, v1alpha1.ReasonQueued, "Old backups of the same cluster are being deleted. This one begins when that is done.")
	case o.cluster.Status.Connection == nil || addressOf(o.backup.Status.Plan, o.cluster) == "":
		return flow.Wait(v1alpha1.ReasonClusterNotReady, "The status of the PostgresCluster does not say how to connect.")
	case !o.stopped(o.previous):
		if err := r.remove(ctx, o, o.backup.Status.Plan.Attempt-1, o.previous); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, fmt.Sprintf("Job %s of the previous attempt is being deleted.", jobName(o.backup, o.backup.Status.Plan.Attempt-1)))
	}
	if outcome := r.awaitPlace(ctx, o); outcome.Kind != flow.Next.Kind {
		return outcome // a new process may not know that it had one
	}
	job, err := r.job(o)
	if err == nil {
		err = job.Ensure(ctx, r.Client)
	}
	if err != nil {
		return workload.NotEnsured(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRunning, running(o.backup, ""))
}

// misplaced says that the Job waits for a node, for room, or for somebody to let its pod be created, with other settings than it would have now.
func (r *Reconciler) misplaced(o *observed) bool {
	if !o.job.Unplaced() || o.planned == nil || o.cluster.Status.Connection == nil {
		return false
	}
	job, err := r.job(o)
	return err == nil && job.Misplaced(o.job)
}

func (r *Reconciler) job(o *observed) (workload.Job, error) {
	plan, connection := o.backup.Status.Plan, o.cluster.Status.Connection
	spec, err := spec(o)
	if err != nil {
		return workload.Job{}, err
	}
	resources := resourcesOf(o.backup)
	workload.GrowMemory(resources, plan.MemoryBytes)
	resources = bounds.Limit(resources, &o.cluster.Spec)
	return workload.Job{
		Name: jobName(o.backup, plan.Attempt), Owner: o.backup, Cluster: o.cluster.Name, Component: workload.ComponentBackup,
		Image: r.Agent.Image, Agent: r.Agent, Args: []string{"backup"}, Spec: spec, Progress: &spec.Object,
		ClusterSpec: &o.cluster.Spec, Node: plan.Node, Beside: o.instance, DataClaim: plan.Volume, DataReadOnly: true,
		S3Secret: repostore.SecretName(o.planned), KeysSecret: repostore.KeysSecretName(o.planned),
		ConnectionConfigMap: connection.ConfigMap, ClientTLSSecret: connection.BackupSecret,
		Secrets: keysOf(spec.Secrets, o.cluster), Resources: resources,
	}, nil
}

// bounds of a limit of CPU that neither spec.resources nor we have, and the cluster has. Four cores compress about as much as a fast
// network takes; a quota need not have room for as many as a large instance has. With less than one, a small instance's backup would take long.
var bounds = workload.Bounds{
	Least: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, Most: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
}

// resourcesOf are those of spec.resources, and ours for what it leaves out.
func resourcesOf(backup *v1alpha1.Backup) corev1.ResourceRequirements {
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(workerMemory)},
	}
	wanted := backup.Spec.Resources
	if wanted == nil {
		return resources
	}
	maps.Copy(resources.Requests, wanted.Requests)
	maps.Copy(resources.Limits, wanted.Limits)
	for name, request := range resources.Requests {
		limit, limited := resources.Limits[name]
		if !limited || limit.Cmp(request) >= 0 {
			continue
		}
		if _, asked := wanted.Requests[name]; asked { // then the limit is ours
			resources.Limits[name] = request
		} else {
			resources.Requests[name] = limit
		}
	}
	return resources
}

// bufferMemory is how much of a pod's memory the worker's buffers take: 96 MiB of 256. The rest is for manifests, and for
// what the garbage collector leaves lying.
func bufferMemory(resources corev1.ResourceRequirements) int64 {
	return resources.Limits.Memory().Value() / 8 * 3
}

// spec is what the worker is told.
func spec(o *observed) (agentapi.BackupJob, error) {
	plan, cluster := o.backup.Status.Plan, o.cluster
	recorded := cluster.Spec
	if grown := cluster.Status.Storage; grown != nil && grown.Size.Cmp(recorded.Storage.Size) > 0 {
		recorded.Storage.Size = grown.Size // as a restored volume has to take as much
	}
	if grown := cluster.Status.WALStorage; recorded.Storage.WAL != nil && grown != nil && grown.Size.Cmp(recorded.Storage.WAL.Size) > 0 {
		recorded.Storage.WAL = recorded.Storage.WAL.DeepCopy()
		recorded.Storage.WAL.Size = grown.Size
	}
	recorded.Storage.Move = nil // what is restored has new volumes anyway
	clusterSpec, err := json.Marshal(recorded)
	if err != nil {
		return agentapi.BackupJob{}, fmt.Errorf("marshal the spec of the cluster: %w", err)
	}
	return agentapi.BackupJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindBackup, Resource: "backups",
			Namespace: o.backup.Namespace, Name: o.backup.Name, UID: string(o.backup.UID),
		},
		Repository: repostore.PodConfig(o.planned),
		BackupID:   plan.ID, Lineage: plan.Lineage, Parent: plan.Parent,
		Compression: string(o.backup.Spec.Compression), MaxBytesPerSecond: maxBytesPerSecond(o.backup),
		MemoryLimit: bufferMemory(resourcesOf(o.backup)), ReportDamage: o.backup.Spec.DamagedPages == v1alpha1.DamagedPagesReport,
		Cluster: cluster.Name, ClusterUID: string(cluster.Identity()), ClusterSpec: clusterSpec, Image: cluster.Status.Image,
		Secrets:        keptSecrets(o.planned, cluster),
		DataGeneration: cluster.Status.DataGeneration,
		Host:           protocol.InstanceHost(cluster.Namespace, cluster.Name, plan.Instance), Address: addressOf(plan, cluster),
	}, nil
}

// addressOf is where the instance of a plan is now: each Job is told anew. Empty: nobody knows.
func addressOf(plan *v1alpha1.BackupPlan, cluster *v1alpha1.PostgresCluster) string {
	for _, instance := range cluster.Status.Instances {
		if instance.Name == plan.Instance {
			return instance.Address
		}
	}
	return ""
}

func maxBytesPerSecond(backup *v1alpha1.Backup) int64 {
	if most := backup.Spec.MaxBytesPerSecond; most != nil {
		return most.Value()
	}
	return 0
}

// awaitJob waits until the Job has ended.
func awaitJob(_ context.Context, o *observed) flow.Outcome {
	if o.job.Ended() {
		return flow.Next
	}
	return flow.Poll(lookAgain, o.job.Reason(v1alpha1.ReasonRunning), running(o.backup, o.job.Trouble()))
}

// stopJob deletes the Jobs, and waits until their pods are gone.
func (r *Reconciler) stopJob(ctx context.Context, o *observed) flow.Outcome {
	if err := r.removeJobs(ctx, o); err != nil {
		return flow.Retry(err)
	}
	if o.stopped(o.job) && o.stopped(o.previous) {
		return flow.Next
	}
	reason := v1alpha1.ReasonRunning
	if o.deleting() {
		reason = v1alpha1.ReasonDeleting
	}
	return flow.Poll(lookAgain, reason, fmt.Sprintf("Job %s is being stopped.", jobName(o.backup, o.backup.Status.Plan.Attempt)))
}

// stopped reports that a Job needn't be waited for. A pod on a lost node may continue, cut off: what it puts has names of its
// own, and of two manifests the first counts. Only before the data is deleted it has to be known that nobody puts more.
func (o *observed) stopped(job workload.State) bool {
	return !job.Exists || !o.deleting() && job.Lost(o.now)
}

// removeJob clears away what has done its work; what it said is in the status.
func (r *Reconciler) removeJob(ctx context.Context, o *observed) flow.Outcome {
	return flow.Retry(r.removeJobs(ctx, o))
}

func (r *Reconciler) removeJobs(ctx context.Context, o *observed) error {
	if plan := o.backup.Status.Plan; plan != nil {
		if err := r.remove(ctx, o, plan.Attempt, o.job); err != nil {
			return err
		}
		return r.remove(ctx, o, plan.Attempt-1, o.previous)
	}
	return nil
}

// remove deletes the Job of an attempt.
func (r *Reconciler) remove(ctx context.Context, o *observed, attempt int32, state workload.State) error {
	return workload.Remove(ctx, r.Client, r.Live, o.backup, jobName(o.backup, attempt), state)
}
