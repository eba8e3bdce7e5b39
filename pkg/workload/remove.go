package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Remove is Delete of a Job and of what Ensure made beside it. That goes first: once the Job is gone, nobody looks for it
// before its owner goes. The reader must not be a cache.
func Remove(ctx context.Context, writer client.Client, reader client.Reader, owner client.Object, name string, state State) error {
	if !state.Exists || state.Deleting {
		return nil
	}
	for _, companion := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.Role{}, &corev1.ServiceAccount{}, &corev1.ConfigMap{}} {
		if err := removeOwned(ctx, writer, reader, owner, companion, name); err != nil {
			return err
		}
	}
	return Delete(ctx, writer, owner, name, state)
}

// removeOwned deletes an object of that name if this owner has it.
func removeOwned(ctx context.Context, writer client.Client, reader client.Reader, owner, object client.Object, name string) error {
	err := reader.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, object)
	if err == nil && metav1.IsControlledBy(object, owner) {
		uid := object.GetUID()
		err = writer.Delete(ctx, object, client.Preconditions{UID: &uid})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove %T %s: %w", object, name, err)
	}
	return nil
}
