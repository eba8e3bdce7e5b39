package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// takenPause is how long until a name that is taken is tried again: what has it is mostly not watched.
const takenPause = time.Minute

// taken is the error of a Job whose ServiceAccount, Role, or what else has its name, is somebody else's: with rights that nobody
// here gave, or with a pod that nobody here described.
type taken struct{ kind, name string }

func (t taken) Error() string {
	return fmt.Sprintf("%s %s already exists and belongs to somebody else, so it is not used. Delete it, or rename one of them.", t.kind, t.name)
}

// Taken is the sentence about an object of somebody else that Ensure has met; empty: the error is another one.
func Taken(err error) string {
	if t := (taken{}); errors.As(err, &t) {
		return t.Error()
	}
	return ""
}

// NotEnsured is the outcome of a pass in which Ensure has failed.
func NotEnsured(err error) flow.Outcome {
	if message := Taken(err); message != "" {
		return flow.Poll(takenPause, v1alpha1.ReasonNameConflict, message)
	}
	if why := refusal(err); why != "" {
		return flow.Poll(refusedLook, v1alpha1.ReasonPodRefused, flow.Sentence("Kubernetes refuses to create the Job: "+shortened(why))+" "+jobRemedy(why, true, OfCluster))
	}
	return flow.Retry(err)
}

// refusal is what a quota, a policy or a webhook says about an object that it refuses; empty: the error is another one. That the controller
// may not create it is another one: a person does something else about that.
func refusal(err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return ""
	}
	why := status.Status().Message
	for _, by := range []string{"exceeded quota", "failed quota", "denied the request", "denied request", "failed calling webhook"} {
		if strings.Contains(why, by) {
			return why
		}
	}
	return ""
}

// create makes an object of this owner, unless the owner has it already.
func create(ctx context.Context, writer client.Client, owner, object client.Object) error {
	gvk, err := apiutil.GVKForObject(object, writer.Scheme())
	if err != nil {
		return fmt.Errorf("find kind of %T: %w", object, err)
	}
	err = writer.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	// Unstructured objects are not read from a cache, which lacks what has no label of Howdah.
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(gvk)
	switch err := writer.Get(ctx, client.ObjectKeyFromObject(object), there); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s was deleted a moment ago: %w", object.GetName(), flow.ErrStale)
	case err != nil:
		return err
	case metav1.IsControlledBy(there, owner) && there.GetDeletionTimestamp().IsZero():
		return nil
	case leaving(there, object):
		return fmt.Errorf("%s %s of a former owner is being deleted", gvk.Kind, object.GetName())
	}
	return taken{gvk.Kind, object.GetName()}
}

// leaving says that an object is being deleted, or will be by Kubernetes' garbage collector: its owner had the name of the one that
// is wanted, and is another.
func leaving(there, wanted client.Object) bool {
	now, then := metav1.GetControllerOf(wanted), metav1.GetControllerOf(there)
	return !there.GetDeletionTimestamp().IsZero() || then != nil && now != nil && then.Kind == now.Kind && then.Name == now.Name && then.UID != now.UID
}
