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
	"howdah.dev/howdah/pkg/repository"
	"howdah.dev/howdah/pkg/workload"
)

// workerMemory is what a worker's pod may use, whatever the size of the database.
const workerMemory = "256Mi"

// ensureJob makes the Job of the plan, after the one of the attempt before is gone.
func (r *Reconciler) ensureJob(ctx context.Context, w *world) flow.Outcome {
	switch {
	case w.job.Foreign:
		return flow.Poll(storeRetry, v1alpha1.ReasonNameConflict, w.job.Message)
	case w.job.Exists:
		return flow.Next
	case w.planned == nil:
		return flow.Poll(storeRetry, v1alpha1.ReasonRepositoryNotFound, repositoryGone(w))
	case r.Gate.Closed(w.backup.Status.Plan.Lineage):
		return flow.Poll(gatePause, v1alpha1.ReasonQueued, "Old backups of the same cluster are being deleted; it begins when that is done.")
	case w.cluster.Status.Connection == nil || addressOf(w.backup.Status.Plan, w.cluster) == "":
		return flow.Wait(v1alpha1.ReasonClusterNotReady, "The status of the PostgresCluster doesn't say how to connect.")
	case !w.stopped(w.previous):
		if err := r.remove(ctx, w, w.backup.Status.Plan.Attempt-1, w.previous); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(lookAgain, v1alpha1.ReasonRunning, fmt.Sprintf("Job %s of the attempt before is being deleted.", jobName(w.backup, w.backup.Status.Plan.Attempt-1)))
	}
	job, err := r.job(w)
	if err == nil {
		err = job.Ensure(ctx, r.Client)
	}
	if err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRunning, running(w.backup, ""))
}

func (r *Reconciler) job(w *world) (workload.Job, error) {
	plan, connection := w.backup.Status.Plan, w.cluster.Status.Connection
	spec, err := r.spec(w)
	if err != nil {
		return workload.Job{}, err
	}
	return workload.Job{
		Name: jobName(w.backup, plan.Attempt), Owner: w.backup, Cluster: w.cluster.Name, Component: workload.ComponentBackup,
		Image: r.Agent.Image, Agent: r.Agent, Args: []string{"backup"}, Spec: spec, Progress: &spec.Object,
		Node: plan.Node, DataClaim: plan.Volume, DataReadOnly: true,
		S3Secret: repository.SecretName(w.planned), KeysSecret: repository.KeysSecretName(w.planned),
		ConnectionConfigMap: connection.ConfigMap, ClientTLSSecret: connection.BackupSecret,
		Secrets: keysOf(spec.Secrets, w.cluster), Resources: resourcesOf(w.backup),
	}, nil
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
func (r *Reconciler) spec(w *world) (agentapi.BackupJob, error) {
	plan, cluster := w.backup.Status.Plan, w.cluster
	recorded := cluster.Spec
	if grown := cluster.Status.Storage; grown != nil && grown.Size.Cmp(recorded.Storage.Size) > 0 {
		recorded.Storage.Size = grown.Size // as a restored volume has to take as much
	}
	clusterSpec, err := json.Marshal(recorded)
	if err != nil {
		return agentapi.BackupJob{}, fmt.Errorf("marshal the spec of the cluster: %w", err)
	}
	return agentapi.BackupJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindBackup, Resource: "backups",
			Namespace: w.backup.Namespace, Name: w.backup.Name, UID: string(w.backup.UID),
		},
		Repository: repository.PodConfig(w.planned),
		BackupID:   plan.ID, Lineage: plan.Lineage, Parent: plan.Parent,
		Compression: string(w.backup.Spec.Compression), MaxBytesPerSecond: maxBytesPerSecond(w.backup),
		MemoryLimit: bufferMemory(resourcesOf(w.backup)),
		Cluster:     cluster.Name, ClusterUID: string(cluster.UID), ClusterSpec: clusterSpec, Image: cluster.Status.Image,
		Secrets:        keptSecrets(w.planned, cluster),
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
func (r *Reconciler) awaitJob(_ context.Context, w *world) flow.Outcome {
	if w.job.Ended() {
		return flow.Next
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonRunning, running(w.backup, w.job.Trouble()))
}

// stopJob deletes the Jobs, and waits until their pods are gone.
func (r *Reconciler) stopJob(ctx context.Context, w *world) flow.Outcome {
	if err := r.removeJobs(ctx, w); err != nil {
		return flow.Retry(err)
	}
	if w.stopped(w.job) && w.stopped(w.previous) {
		return flow.Next
	}
	reason := v1alpha1.ReasonRunning
	if w.deleting() {
		reason = v1alpha1.ReasonDeleting
	}
	return flow.Poll(lookAgain, reason, fmt.Sprintf("Job %s is being stopped.", jobName(w.backup, w.backup.Status.Plan.Attempt)))
}

// stopped reports that a Job needn't be waited for. A pod on a lost node may go on, cut off: what it puts has names of its
// own, and of two manifests the first counts. Only before the data is deleted it has to be known that nobody puts more.
func (w *world) stopped(job workload.State) bool {
	return !job.Exists || !w.deleting() && job.Lost(w.now)
}

// removeJob clears away what has done its work; what it said is in the status.
func (r *Reconciler) removeJob(ctx context.Context, w *world) flow.Outcome {
	return flow.Retry(r.removeJobs(ctx, w))
}

func (r *Reconciler) removeJobs(ctx context.Context, w *world) error {
	if plan := w.backup.Status.Plan; plan != nil {
		if err := r.remove(ctx, w, plan.Attempt, w.job); err != nil {
			return err
		}
		return r.remove(ctx, w, plan.Attempt-1, w.previous)
	}
	return nil
}

// remove deletes the Job of an attempt.
func (r *Reconciler) remove(ctx context.Context, w *world, attempt int32, state workload.State) error {
	return workload.Remove(ctx, r.Client, r.Reader, w.backup, jobName(w.backup, attempt), state)
}
