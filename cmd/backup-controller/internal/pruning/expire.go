package pruning

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
)

// expire marks the Backup, so that its data goes whatever its deletionPolicy says, and deletes it.
func (r *run) expire(ctx context.Context, object *v1alpha1.Backup) error {
	if !object.DeletionTimestamp.IsZero() {
		return nil
	}
	marked := object.DeepCopy()
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	marked.Annotations[v1alpha1.AnnotationExpired] = r.repo.Name
	// With the lock, so that a hold that comes now is seen.
	err := r.Client.Patch(ctx, marked, client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		err = r.Client.Delete(ctx, marked, client.Preconditions{UID: &marked.UID, ResourceVersion: &marked.ResourceVersion})
		if err != nil {
			err = errors.Join(err, r.unmark(ctx, marked))
		}
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the next run sees what became of it
	}
	if err != nil {
		return fmt.Errorf("delete Backup %s: %w", object.Name, err)
	}
	r.result.removed.backups++
	r.Events.Eventf(marked, r.repo, corev1.EventTypeNormal, v1alpha1.ReasonExpired, "Retention", "No rule in spec.retention of BackupRepository %s keeps this backup.", r.repo.Name)
	log.FromContext(ctx).Info("Deleted a Backup that no rule keeps", "repository", r.repo.Name, "backup", object.Name)
	return nil
}

// unmarkAll takes the mark from Backups that nobody deletes: who set it has died since, or was not let delete them. The next rule to remove one
// sets it again; until then, its deletionPolicy counts.
func (r *run) unmarkAll(ctx context.Context) error {
	for i := range r.facts.backups {
		b := &r.facts.backups[i]
		if b.Annotations[v1alpha1.AnnotationExpired] != r.repo.Name || !b.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.unmark(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// unmark takes the mark from a Backup, in any version but one that is being deleted.
func (r *run) unmark(ctx context.Context, marked *v1alpha1.Backup) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object := &v1alpha1.Backup{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(marked), object); err != nil {
			return client.IgnoreNotFound(err)
		}
		if object.UID != marked.UID || !object.DeletionTimestamp.IsZero() || object.Annotations[v1alpha1.AnnotationExpired] == "" {
			return nil
		}
		before := object.DeepCopy()
		delete(object.Annotations, v1alpha1.AnnotationExpired)
		if err := r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return client.IgnoreNotFound(err)
		}
		*marked = *object
		return nil
	})
	if err != nil {
		return fmt.Errorf("take the mark of retention from Backup %s: %w", marked.Name, err)
	}
	return nil
}
