package workload

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Delete deletes the owner's Job that was seen, and its pods before it: as long as the Job is there, a pod may still
// run. It touches no other Job, not even one that has this name by now, and may be repeated.
func Delete(ctx context.Context, writer client.Client, owner client.Object, name string, state State) error {
	if !state.Exists || state.Deleting {
		return nil
	}
	return deleteJob(ctx, writer, owner, name, state, metav1.DeletePropagationForeground)
}

// Abandon is Delete that doesn't wait for a pod, which may still run on a node that doesn't respond. It is for a Job that is Replaceable
// and Lost: another of this name can be created at once. It also ends a deletion that has begun to wait.
func Abandon(ctx context.Context, writer client.Client, owner client.Object, name string, state State) error {
	if !state.Exists {
		return nil
	}
	return deleteJob(ctx, writer, owner, name, state, metav1.DeletePropagationBackground)
}

func deleteJob(ctx context.Context, writer client.Client, owner client.Object, name string, state State, policy metav1.DeletionPropagation) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: name}}
	err := writer.Delete(ctx, job, client.PropagationPolicy(policy), client.Preconditions{UID: &state.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Job %s: %w", name, err)
	}
	return nil
}
