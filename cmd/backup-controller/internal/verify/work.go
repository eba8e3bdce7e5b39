package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/workload"
)

// workerMemory is what a worker's pod may use, whatever the size of the backup, unless that has very many files.
const workerMemory = "256Mi"

// awaitTurn lets one backup of a repository be read at a time.
func (r *Reconciler) awaitTurn(_ context.Context, o *observed) flow.Outcome {
	if o.ahead == nil {
		return flow.Next
	}
	return flow.Poll(15*lookAgain, v1alpha1.ReasonAwaitingVerification, fmt.Sprintf("Waiting until Backup %s of the same repository is verified.", o.ahead.Name))
}

func (r *Reconciler) awaitRepository(_ context.Context, o *observed) flow.Outcome {
	if o.repo == nil {
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotFound, repositoryGone(o))
	}
	ready := meta.FindStatusCondition(o.repo.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || !protocol.Current(o.repo, o.repo.Status.ObservedGeneration):
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s has not been checked yet.", o.repo.Name))
	case ready.Status != metav1.ConditionTrue:
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s can't be used now: %s", o.repo.Name, ready.Message))
	}
	return flow.Next
}

func repositoryGone(o *observed) string {
	return fmt.Sprintf("BackupRepository %s, which holds the backup, no longer exists. Create it again.", o.backup.Status.Plan.Repository)
}

// begin records a verification before there is a Job. What the last one has found stands until this one has an end. No two
// start in the same second, as the names of their Jobs come from that.
func (r *Reconciler) begin(_ context.Context, o *observed) flow.Outcome {
	last := o.backup.Status.Verification
	if last == nil {
		last = &v1alpha1.BackupVerification{}
	}
	next := last.DeepCopy()
	started := o.now.Truncate(time.Second)
	if !started.After(last.StartedAt.Time) {
		started = last.StartedAt.Add(time.Second)
	}
	next.Attempt, next.StartedAt, next.CompletedAt = 1, metav1.Time{Time: started}, nil
	if asked := o.backup.Spec.Verify; asked != nil {
		next.Token = &asked.Token
	}
	o.backup.Status.Verification = next
	return flow.Save(v1alpha1.ReasonVerifying, verifying(o, ""))
}

// jobName is at most 63 characters long. Each attempt of each verification has a name of its own, so that none takes the
// result of another, whatever a cache shows.
func jobName(backup *v1alpha1.Backup, attempt int32) string {
	began := backup.Status.Verification.StartedAt.Unix()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", backup.UID, began, attempt))
	suffix := "-verify-" + hex.EncodeToString(sum[:4])
	return backup.Name[:min(len(backup.Name), 63-len(suffix))] + suffix
}

// ensureJob makes the Job of this attempt, and has the one of the attempt before go.
func (r *Reconciler) ensureJob(ctx context.Context, o *observed) flow.Outcome {
	attempt := o.backup.Status.Verification.Attempt
	if err := r.remove(ctx, o, attempt-1, o.previous); err != nil {
		return flow.Retry(err)
	}
	switch {
	case o.job.Taken():
		return flow.Poll(lookAgain, v1alpha1.ReasonNameConflict, o.job.Message)
	case o.repo != nil && r.job(o).Misplaced(o.job):
		if err := workload.Delete(ctx, r.Client, o.backup, jobName(o.backup, attempt), o.job); err != nil {
			return flow.Retry(err)
		}
		return flow.Poll(lookAgain, v1alpha1.ReasonVerifying, fmt.Sprintf("Job %s waited for a node, and is being created again with the new settings.", jobName(o.backup, attempt)))
	case o.job.Exists:
		return flow.Next
	case o.repo == nil:
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotFound, repositoryGone(o))
	}
	if err := r.job(o).Ensure(ctx, r.Client); err != nil {
		return workload.NotEnsured(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonVerifying, verifying(o, ""))
}

// job needs the bucket and nothing else: no volume, no database, and of the API server only the progress of this Backup.
func (r *Reconciler) job(o *observed) workload.Job {
	plan := o.backup.Status.Plan
	task := agentapi.VerifyJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindBackup, Resource: "backups",
			Namespace: o.backup.Namespace, Name: o.backup.Name, UID: string(o.backup.UID),
		},
		Repository: repostore.PodConfig(o.repo), Lineage: plan.Lineage, BackupID: plan.ID, MaxBytesPerSecond: rate(o.backup, o.repo),
	}
	return workload.Job{
		Name: jobName(o.backup, o.backup.Status.Verification.Attempt), Owner: o.backup, Cluster: o.backup.Spec.Cluster.Name,
		Component: workload.ComponentBackup, Image: r.Agent.Image, Agent: r.Agent, Args: []string{"verify"},
		Spec: task, Progress: &task.Object, ClusterSpec: o.clusterSpec(),
		S3Secret: repostore.SecretName(o.repo), KeysSecret: repostore.KeysSecretName(o.repo),
		Resources: limited(resourcesOf(o.backup), o.clusterSpec()),
	}
}

// mostCPU is the limit of CPU of a Job at most, and that of one whose cluster is gone: nobody knows whether a quota wants one, and who reads
// without haste gets along with it.
var (
	mostCPU    = resource.MustParse("2")
	cpuWithout = resource.MustParse("1")
)

// limited are resources with a limit of CPU where the cluster has one, or may have had one: a quota of the namespace may want it. What a
// quota refuses would be in the way of all other backups of the repository.
func limited(resources corev1.ResourceRequirements, cluster *v1alpha1.PostgresClusterSpec) corev1.ResourceRequirements {
	if _, set := resources.Limits[corev1.ResourceCPU]; cluster == nil && !set {
		resources.Limits[corev1.ResourceCPU] = cpuWithout
	}
	return workload.Bounds{Most: corev1.ResourceList{corev1.ResourceCPU: mostCPU}}.Limit(resources, cluster)
}

// resourcesOf are ours, with a limit of CPU and a larger memory limit of the Backup, or as an earlier attempt has said that it needs.
func resourcesOf(backup *v1alpha1.Backup) corev1.ResourceRequirements {
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(workerMemory)},
	}
	if wanted := backup.Spec.Resources; wanted != nil && wanted.Limits.Memory().Cmp(resources.Limits[corev1.ResourceMemory]) > 0 {
		resources.Limits[corev1.ResourceMemory] = *wanted.Limits.Memory()
	}
	if backup.Spec.Resources != nil {
		if cpu, limited := backup.Spec.Resources.Limits[corev1.ResourceCPU]; limited {
			resources.Limits[corev1.ResourceCPU] = cpu
			if cpu.Cmp(resources.Requests[corev1.ResourceCPU]) < 0 {
				resources.Requests[corev1.ResourceCPU] = cpu
			}
		}
	}
	workload.GrowMemory(resources, backup.Status.Verification.MemoryBytes)
	return resources
}

// rate is the bound of the Backup, else that of the repository, else none.
func rate(backup *v1alpha1.Backup, repo *v1alpha1.BackupRepository) int64 {
	switch {
	case backup.Spec.Verify != nil && backup.Spec.Verify.MaxBytesPerSecond != nil:
		return backup.Spec.Verify.MaxBytesPerSecond.Value()
	case repo.Spec.Verify != nil && repo.Spec.Verify.MaxBytesPerSecond != nil:
		return repo.Spec.Verify.MaxBytesPerSecond.Value()
	}
	return 0
}

func (r *Reconciler) awaitJob(_ context.Context, o *observed) flow.Outcome {
	return flow.Poll(lookAgain, o.job.Reason(v1alpha1.ReasonVerifying), verifying(o, o.job.Trouble()))
}

// takeResult takes what the worker's pod has said.
func (r *Reconciler) takeResult(_ context.Context, o *observed) flow.Outcome {
	result := agentapi.VerifyResult{}
	if !o.job.Complete || !o.job.Result(&result) {
		return flow.Next
	}
	status, verification := &o.backup.Status, o.backup.Status.Verification
	status.VerifiedAt, verification.CompletedAt = &metav1.Time{Time: o.now}, &metav1.Time{Time: o.now}
	verification.Objects, verification.CheckedBytes, verification.WrongObjects = result.Objects, result.CheckedBytes, result.WrongObjects
	verification.Wrong, status.LockedUntil, status.LockEndsFirst = nil, nil, ""
	if l := result.Locked; l != nil {
		status.LockedUntil, status.LockEndsFirst = &metav1.Time{Time: l.Until}, l.Object
	}
	for _, wrong := range result.Wrong {
		verification.Wrong = append(verification.Wrong, v1alpha1.WrongObject(wrong))
	}
	return flow.Save(reasonOf(verification), found(o.backup))
}

// requireAttempts gives a verification up after this many Jobs. The next time of the schedule, or another token, begins
// another.
func (r *Reconciler) requireAttempts(_ context.Context, o *observed) flow.Outcome {
	reason, message := v1alpha1.ReasonJobFailed, "the node of its pod does not respond"
	final := false
	if o.job.Ended() {
		reason, message = o.job.FailureReason()
		final = o.job.Outcome != nil && o.job.Outcome.Error != nil && o.job.Outcome.Error.Final
	}
	verification := o.backup.Status.Verification
	if verification.Attempt < maxAttempts && (!final || o.needsMemory() > 0) {
		return flow.Next
	}
	verification.CompletedAt = &metav1.Time{Time: o.now}
	return flow.Save(reason, fmt.Sprintf("The backup could not be read, so nothing is known about its objects. Verification stopped after %d attempts. The last one ended with: %s",
		verification.Attempt, message))
}

// needsMemory is the limit with which the next attempt succeeds where this one had too little, in bytes; 0: that was not it.
func (o *observed) needsMemory() int64 {
	return o.job.NeedsMemory(o.backup.Status.Verification.MemoryBytes, o.backup.Spec.Resources)
}

func (r *Reconciler) tryAgain(_ context.Context, o *observed) flow.Outcome {
	verification := o.backup.Status.Verification
	verification.Attempt, verification.MemoryBytes = verification.Attempt+1, max(verification.MemoryBytes, o.needsMemory())
	return flow.Save(v1alpha1.ReasonVerifying, verifying(o, ""))
}

// clearJob removes Jobs that have done their work, or whose backup is going; what they said is in the status.
func (r *Reconciler) clearJob(ctx context.Context, o *observed) flow.Outcome {
	verification := o.backup.Status.Verification
	if verification == nil {
		return flow.Next
	}
	if err := r.remove(ctx, o, verification.Attempt, o.job); err != nil {
		return flow.Retry(err)
	}
	return flow.Retry(r.remove(ctx, o, verification.Attempt-1, o.previous))
}

func (r *Reconciler) remove(ctx context.Context, o *observed, attempt int32, state workload.State) error {
	return workload.Remove(ctx, r.Client, r.Live, o.backup, jobName(o.backup, attempt), state)
}
