package flow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// expireAgain is when an object is looked at again that has changed since it was to be deleted.
const expireAgain = time.Second

// Expire deletes an object that ended longer ago than its time to live, in seconds; nil: it stays. The object is deleted only as
// it was seen: somebody may have given it more time, or replaced it, since the cache was told.
func Expire(ctx context.Context, writer client.Client, object client.Object, endedAt metav1.Time, ttl *int32, now time.Time) Outcome {
	if ttl == nil {
		return Next
	}
	if left := endedAt.Add(time.Duration(*ttl) * time.Second).Sub(now); left > 0 {
		return Outcome{Kind: KindWait, After: left}
	}
	err := writer.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID()), ResourceVersion: ptr.To(object.GetResourceVersion())})
	switch {
	case apierrors.IsConflict(err):
		return Outcome{Kind: KindWait, After: expireAgain}
	case client.IgnoreNotFound(err) != nil:
		return Retry(fmt.Errorf("delete what has expired: %w", err))
	}
	return Next
}
