package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/serverside"
)

// annotationApplied is the hash of what was applied last. A field that is no longer wanted shows only there.
const annotationApplied = "howdah.dev/applied"

// Put has an object be as it is desired, by server-side apply, and writes only if it isn't: when a field that we own
// has another value, or when we want another set of fields than the last time. An object that is not there is created, and has
// what the API server gave it afterwards; that it isn't somebody else's was checked before, or is checked with the write.
func (a *Applier) Put(ctx context.Context, o *observed.Cluster, object client.Object) error {
	if err := controllerutil.SetControllerReference(o.Cluster, object, a.Client.Scheme()); err != nil {
		return fmt.Errorf("own %s: %w", object.GetName(), err)
	}
	key := observed.Key(observed.KindOf(a.Client.Scheme(), object), object.GetName())
	if observed.Passes(o, key) {
		return nil
	}
	live := o.Live[key]
	now, err := markOf(object, live)
	if err != nil || a.Settled.is(o.Cluster, key, now) {
		return err
	}
	wanted, err := a.applyConfiguration(object)
	if err != nil {
		return err
	}
	if live != nil {
		current, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return fmt.Errorf("read %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
		}
		// Typed objects don't carry their kind.
		current["apiVersion"], current["kind"] = wanted.GetAPIVersion(), wanted.GetKind()
		if contains(current, wanted.Object) {
			a.Settled.note(o.Cluster, key, now)
			return nil
		}
		// Should it be deleted and created by somebody else meanwhile, the write fails.
		wanted.SetUID(live.GetUID())
	}
	switch object.(type) {
	case *appsv1.StatefulSet:
		wanted.SetResourceVersion(versionOf(live))
	case *corev1.Secret:
		if live != nil { // people change passwords in it, and it may have been read a while ago
			wanted.SetResourceVersion(live.GetResourceVersion())
		}
	}
	return a.write(ctx, o, live, object, wanted)
}

// versionOf an object that is written only as it was seen: whoever was held up since then, and has missed that the instances were
// stopped for somebody, starts none. See volumegrant.Fenced.
func versionOf(live client.Object) string {
	if live == nil {
		return serverside.NoVersion
	}
	return live.GetResourceVersion()
}

func (a *Applier) write(ctx context.Context, o *observed.Cluster, live, object client.Object, wanted *unstructured.Unstructured) error {
	kind, name := wanted.GetKind(), wanted.GetName()
	secret, isSecret := object.(*corev1.Secret)
	var verb string
	var err error
	switch {
	case live == nil && isSecret:
		// What was generated is written only if nobody else has generated it meanwhile.
		verb = "create"
		object.SetAnnotations(wanted.GetAnnotations())
		err = a.Client.Create(ctx, object, client.FieldOwner(FieldManager))
	case live != nil && live.GetAnnotations()[annotationApplied] == wanted.GetAnnotations()[annotationApplied]:
		// We want what we wanted before, so somebody else has changed it. Server-side apply would leave what they
		// added to lists; this replaces lists as a whole.
		verb = "put back"
		err = a.putBack(ctx, wanted)
	default:
		verb = "apply"
		if live == nil && o.Own.Begun() {
			wanted.SetResourceVersion(serverside.NoVersion)
		}
		err = a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(FieldManager), client.ForceOwnership)
	}
	if live == nil {
		err = o.Own.Taken(err)
	}
	if isSecret && live != nil && apierrors.IsConflict(err) {
		a.Secrets.Drop(o.Cluster, name)
		err = fmt.Errorf("it has changed: %w", flow.ErrStale)
	}
	if err != nil {
		return fmt.Errorf("%s %s %s: %w", verb, kind, name, err)
	}
	log.FromContext(ctx).Info("Wrote object", "kind", kind, "name", name, "verb", verb, "new", live == nil)
	switch {
	case isSecret:
		a.noteSecret(o, secret)
	case live == nil:
		return noteMade(o, object, wanted)
	}
	return nil
}

// noteSecret has the pass continue with a Secret as it was written. It is known from then on if it is new; else it is read again,
// since it has more than what was written.
func (a *Applier) noteSecret(o *observed.Cluster, secret *corev1.Secret) {
	name := observed.Key("Secret", secret.Name)
	isNew := o.Live[name] == nil
	a.Secrets.Drop(o.Cluster, secret.Name)
	if isNew {
		a.Secrets.Put(o.Cluster, secret, o.Now)
	}
	o.Live[name] = secret
}

// noteMade remembers an object until the cache shows it, and completes it with what the API server has decided.
func noteMade(o *observed.Cluster, object client.Object, made *unstructured.Unstructured) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made.Object, object); err != nil {
		return fmt.Errorf("read what became of %s %s: %w", made.GetKind(), made.GetName(), err)
	}
	o.Own.Remember(observed.Key(made.GetKind(), made.GetName()), object.DeepCopyObject().(client.Object))
	return nil
}

func (a *Applier) putBack(ctx context.Context, wanted *unstructured.Unstructured) error {
	data, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	return a.Client.Patch(ctx, wanted.DeepCopy(), client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager))
}

// applyConfiguration is the object as a set of fields that we want to own.
func (a *Applier) applyConfiguration(object client.Object) (*unstructured.Unstructured, error) {
	wanted, err := serverside.Fields(a.Client.Scheme(), object)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, fmt.Errorf("marshal %s %s: %w", wanted.GetKind(), object.GetName(), err)
	}
	sum := sha256.Sum256(data)
	annotations := wanted.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationApplied] = hex.EncodeToString(sum[:8])
	wanted.SetAnnotations(annotations)
	return wanted, nil
}

// PutAll puts several objects that don't depend on each other. Each is written on its own, so a crash between two of them
// is only a repeat.
func (a *Applier) PutAll(ctx context.Context, o *observed.Cluster, objects ...client.Object) flow.Outcome {
	for _, object := range objects {
		if err := a.Put(ctx, o, object); err != nil {
			return flow.Retry(err)
		}
	}
	return flow.Next
}

// Remove deletes the very object that was seen.
func (a *Applier) Remove(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := a.Client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy("Background"))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s: %w", observed.KindOf(a.Client.Scheme(), object), object.GetName(), err)
	}
	log.FromContext(ctx).Info("Deleted object", "kind", observed.KindOf(a.Client.Scheme(), object), "name", object.GetName())
	return nil
}

// RemoveUnchanged deletes an object only as it was seen. Its error is ErrStale where somebody has written it since: that may be who uses it again.
func (a *Applier) RemoveUnchanged(ctx context.Context, object client.Object) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	kind := observed.KindOf(a.Client.Scheme(), object)
	err := a.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy("Background"))
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("delete %s %s: it has changed: %w", kind, object.GetName(), flow.ErrStale)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("delete %s %s: %w", kind, object.GetName(), err)
	}
	log.FromContext(ctx).Info("Deleted object", "kind", kind, "name", object.GetName())
	return nil
}

// FieldManager of everything that is applied.
const FieldManager = "db-controller"
