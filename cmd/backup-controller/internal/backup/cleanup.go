package backup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/workload"
)

// remove deletes the Job of an attempt. What was made beside it goes first: once the Job is gone, nobody looks for that
// again before the Backup itself goes.
func (r *Reconciler) remove(ctx context.Context, w *world, attempt int32, state workload.State) error {
	if !state.Exists || state.Deleting {
		return nil
	}
	name := jobName(w.backup, attempt)
	for _, companion := range companions() {
		if err := r.removeOwned(ctx, w, companion, name); err != nil {
			return err
		}
	}
	return workload.Delete(ctx, r.Client, w.backup, name, state)
}

// companions are the kinds of what workload.Job makes beside a Job.
func companions() []client.Object {
	return []client.Object{&rbacv1.RoleBinding{}, &rbacv1.Role{}, &corev1.ServiceAccount{}, &corev1.ConfigMap{}}
}

// removeOwned deletes an object of that name if this Backup owns it.
func (r *Reconciler) removeOwned(ctx context.Context, w *world, object client.Object, name string) error {
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: w.backup.Namespace, Name: name}, object)
	if err == nil && metav1.IsControlledBy(object, w.backup) {
		uid := object.GetUID()
		err = r.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove %T %s: %w", object, name, err)
	}
	return nil
}
