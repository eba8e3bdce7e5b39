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
	"howdah.dev/howdah/pkg/repository"
	"howdah.dev/howdah/pkg/workload"
)

// workerMemory is what a worker's pod may use, whatever the size of the backup.
const workerMemory = "256Mi"

// awaitTurn lets one backup of a repository be read at a time.
func (r *Reconciler) awaitTurn(_ context.Context, w *world) flow.Outcome {
	if w.ahead == nil {
		return flow.Next
	}
	return flow.Poll(15*lookAgain, v1alpha1.ReasonAwaitingVerification, fmt.Sprintf("Backup %s of the same repository is verified first.", w.ahead.Name))
}

func (r *Reconciler) awaitRepository(_ context.Context, w *world) flow.Outcome {
	if w.repo == nil {
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotFound, repositoryGone(w))
	}
	ready := meta.FindStatusCondition(w.repo.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || !protocol.Current(w.repo, w.repo.Status.ObservedGeneration):
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s has not been checked yet.", w.repo.Name))
	case ready.Status != metav1.ConditionTrue:
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotReady, fmt.Sprintf("BackupRepository %s can't be used now: %s", w.repo.Name, ready.Message))
	}
	return flow.Next
}

func repositoryGone(w *world) string {
	return fmt.Sprintf("There is no BackupRepository %s any more, in which the backup lies; make it again.", w.backup.Status.Plan.Repository)
}

// begin records a verification before there is a Job. What the last one has found stands until this one has an end. No two
// start in the same second, as the names of their Jobs come from that.
func (r *Reconciler) begin(_ context.Context, w *world) flow.Outcome {
	last := w.backup.Status.Verification
	if last == nil {
		last = &v1alpha1.BackupVerification{}
	}
	next := last.DeepCopy()
	started := w.now.Truncate(time.Second)
	if !started.After(last.StartedAt.Time) {
		started = last.StartedAt.Add(time.Second)
	}
	next.Attempt, next.StartedAt, next.CompletedAt = 1, metav1.Time{Time: started}, nil
	if asked := w.backup.Spec.Verify; asked != nil {
		next.Token = &asked.Token
	}
	w.backup.Status.Verification = next
	return flow.Save(v1alpha1.ReasonVerifying, verifying(w, ""))
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
func (r *Reconciler) ensureJob(ctx context.Context, w *world) flow.Outcome {
	attempt := w.backup.Status.Verification.Attempt
	if err := r.remove(ctx, w, attempt-1, w.previous); err != nil {
		return flow.Retry(err)
	}
	switch {
	case w.job.Foreign:
		return flow.Poll(lookAgain, v1alpha1.ReasonNameConflict, w.job.Message)
	case w.job.Exists:
		return flow.Next
	case w.repo == nil:
		return flow.Poll(lookAgain, v1alpha1.ReasonRepositoryNotFound, repositoryGone(w))
	}
	if err := r.job(w).Ensure(ctx, r.Client); err != nil {
		return flow.Retry(err)
	}
	return flow.Poll(lookAgain, v1alpha1.ReasonVerifying, verifying(w, ""))
}

// job needs the bucket and nothing else: no volume, no database, and of the API server only the progress of this Backup.
func (r *Reconciler) job(w *world) workload.Job {
	plan := w.backup.Status.Plan
	task := agentapi.VerifyJob{
		Object: agentapi.Object{
			Kind: v1alpha1.KindBackup, Resource: "backups",
			Namespace: w.backup.Namespace, Name: w.backup.Name, UID: string(w.backup.UID),
		},
		Repository: repository.PodConfig(w.repo), Lineage: plan.Lineage, BackupID: plan.ID, MaxBytesPerSecond: rate(w.backup, w.repo),
	}
	return workload.Job{
		Name: jobName(w.backup, w.backup.Status.Verification.Attempt), Owner: w.backup, Cluster: w.backup.Spec.Cluster.Name,
		Component: workload.ComponentBackup, Image: r.Agent.Image, Agent: r.Agent, Args: []string{"verify"},
		Spec: task, Progress: &task.Object,
		S3Secret: repository.SecretName(w.repo), KeysSecret: repository.KeysSecretName(w.repo),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(workerMemory)},
		},
	}
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

func (r *Reconciler) awaitJob(_ context.Context, w *world) flow.Outcome {
	return flow.Poll(lookAgain, v1alpha1.ReasonVerifying, verifying(w, w.job.Trouble()))
}

// takeResult takes what the worker's pod has said.
func (r *Reconciler) takeResult(_ context.Context, w *world) flow.Outcome {
	result := agentapi.VerifyResult{}
	if !w.job.Complete || !w.job.Result(&result) {
		return flow.Next
	}
	status, verification := &w.backup.Status, w.backup.Status.Verification
	status.VerifiedAt, verification.CompletedAt = &metav1.Time{Time: w.now}, &metav1.Time{Time: w.now}
	verification.Objects, verification.CheckedBytes, verification.WrongObjects = result.Objects, result.CheckedBytes, result.WrongObjects
	verification.Wrong = nil
	for _, wrong := range result.Wrong {
		verification.Wrong = append(verification.Wrong, v1alpha1.WrongObject(wrong))
	}
	return flow.Save(reasonOf(verification), found(w.backup))
}

// requireAttempts gives a verification up after so many Jobs. The next time of the schedule, or another token, begins
// another.
func (r *Reconciler) requireAttempts(_ context.Context, w *world) flow.Outcome {
	reason, message := v1alpha1.ReasonJobFailed, "the node of its pod does not answer"
	final := false
	if w.job.Ended() {
		reason, message = w.job.FailureReason()
		final = w.job.Outcome != nil && w.job.Outcome.Error != nil && w.job.Outcome.Error.Final
	}
	verification := w.backup.Status.Verification
	if verification.Attempt < maxAttempts && !final {
		return flow.Next
	}
	verification.CompletedAt = &metav1.Time{Time: w.now}
	return flow.Save(reason, fmt.Sprintf("The backup could not be read, which says nothing of it; given up after %d attempts, the last of which ended with: %s",
		verification.Attempt, message))
}

func (r *Reconciler) tryAgain(_ context.Context, w *world) flow.Outcome {
	w.backup.Status.Verification.Attempt++
	return flow.Save(v1alpha1.ReasonVerifying, verifying(w, ""))
}

// clearJob removes Jobs that have done their work, or whose backup is going; what they said is in the status.
func (r *Reconciler) clearJob(ctx context.Context, w *world) flow.Outcome {
	verification := w.backup.Status.Verification
	if verification == nil {
		return flow.Next
	}
	if err := r.remove(ctx, w, verification.Attempt, w.job); err != nil {
		return flow.Retry(err)
	}
	return flow.Retry(r.remove(ctx, w, verification.Attempt-1, w.previous))
}

func (r *Reconciler) remove(ctx context.Context, w *world, attempt int32, state workload.State) error {
	return workload.Remove(ctx, r.Client, r.Reader, w.backup, jobName(w.backup, attempt), state)
}
