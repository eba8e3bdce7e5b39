package flow

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// EnsureFinalizer puts a finalizer on the object. Having written, it ends the pass: the object has changed, so the rest
// is done on what is read next.
func EnsureFinalizer(ctx context.Context, writer client.Client, object client.Object, finalizer string) Outcome {
	if controllerutil.ContainsFinalizer(object, finalizer) {
		return Next
	}
	return patchFinalizers(ctx, writer, object, func(o client.Object) { controllerutil.AddFinalizer(o, finalizer) })
}

// RemoveFinalizer takes the finalizer off, as the last step of a deletion.
func RemoveFinalizer(ctx context.Context, writer client.Client, object client.Object, finalizer string) Outcome {
	if !controllerutil.ContainsFinalizer(object, finalizer) {
		return Next
	}
	return patchFinalizers(ctx, writer, object, func(o client.Object) { controllerutil.RemoveFinalizer(o, finalizer) })
}

// patchFinalizers works on a copy, so that the status under way in the object is not replaced by the server's.
func patchFinalizers(ctx context.Context, writer client.Client, object client.Object, change func(client.Object)) Outcome {
	copied := object.DeepCopyObject().(client.Object)
	base := object.DeepCopyObject().(client.Object)
	change(copied)
	err := writer.Patch(ctx, copied, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return Outcome{Kind: KindWait}
	}
	if err != nil {
		return Retry(fmt.Errorf("write finalizers: %w", err))
	}
	return Outcome{Kind: KindSave, Rewritten: true}
}
