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
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: name}}
	err := writer.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &state.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Job %s: %w", name, err)
	}
	return nil
}
