package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"howdah.dev/apis/v1alpha1"
)

// noVersion is the version of no object: the first revision of a store is an empty one. So to apply with it makes an object,
// or meets a conflict where there is one. To create it instead would leave fields to us that a later apply doesn't take away.
const noVersion = "1"

// annotationApplied is the hash of what was applied last. A field that is no longer wanted shows only there.
const annotationApplied = "howdah.dev/applied"

// put makes an object be as it is wanted, by server-side apply, and writes only if it isn't: when a field that we own
// has another value, or when we want another set of fields than the last time. An object that is not there is made; that it
// isn't somebody else's was checked before (admit), or is checked with the write.
func (r *Reconciler) put(ctx context.Context, w *world, object client.Object) error {
	if err := controllerutil.SetControllerReference(w.cluster, object, r.Client.Scheme()); err != nil {
		return fmt.Errorf("own %s: %w", object.GetName(), err)
	}
	wanted, err := r.applyConfiguration(object)
	if err != nil {
		return err
	}
	live := w.live[key(wanted.GetKind(), wanted.GetName())]
	if live != nil {
		current, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return fmt.Errorf("read %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
		}
		// Typed objects don't carry their kind.
		current["apiVersion"], current["kind"] = wanted.GetAPIVersion(), wanted.GetKind()
		if contains(current, wanted.Object) {
			return nil
		}
		// Should it be deleted and made by somebody else meanwhile, the write fails.
		wanted.SetUID(live.GetUID())
	}
	return r.write(ctx, w, live, object, wanted)
}

func (r *Reconciler) write(ctx context.Context, w *world, live, object client.Object, wanted *unstructured.Unstructured) error {
	kind, name := wanted.GetKind(), wanted.GetName()
	_, generated := object.(*corev1.Secret)
	var verb string
	var err error
	switch {
	case live == nil && generated:
		// What was generated is written only if nobody else has generated it meanwhile.
		verb = "create"
		object.SetAnnotations(wanted.GetAnnotations())
		err = r.Client.Create(ctx, object, client.FieldOwner(FieldManager))
	case live != nil && live.GetAnnotations()[annotationApplied] == wanted.GetAnnotations()[annotationApplied]:
		// We want what we wanted before, so somebody else has changed it. Server-side apply would leave what they
		// added to lists; this replaces lists as a whole.
		verb = "put back"
		err = r.putBack(ctx, wanted)
	default:
		verb = "apply"
		if live == nil && w.own.Begun() {
			wanted.SetResourceVersion(noVersion)
		}
		err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(FieldManager), client.ForceOwnership)
	}
	if live == nil {
		err = w.own.Taken(err)
	}
	if err != nil {
		return fmt.Errorf("%s %s %s: %w", verb, kind, name, err)
	}
	log.FromContext(ctx).Info("Wrote object", "kind", kind, "name", name, "verb", verb, "new", live == nil)
	secret, isSecret := object.(*corev1.Secret)
	switch {
	case isSecret:
		r.noteSecret(w, secret)
	case live == nil:
		return noteMade(w, object, wanted)
	}
	return nil
}

// noteSecret has the pass go on with a Secret as it was written. It is known from then on if it is new; else it is read again,
// since it has more than what was written.
func (r *Reconciler) noteSecret(w *world, secret *corev1.Secret) {
	name := key("Secret", secret.Name)
	isNew := w.live[name] == nil
	r.secrets.drop(w.cluster, secret.Name)
	if isNew {
		r.secrets.put(w.cluster, secret, w.now)
	}
	w.live[name] = secret
}

// noteMade remembers an object until the cache shows it.
func noteMade(w *world, object client.Object, made *unstructured.Unstructured) error {
	fields, typed := made.Object, object.DeepCopyObject().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, typed); err != nil {
		return fmt.Errorf("read what became of %s %s: %w", made.GetKind(), made.GetName(), err)
	}
	w.own.Remember(key(made.GetKind(), made.GetName()), typed)
	return nil
}

func (r *Reconciler) putBack(ctx context.Context, wanted *unstructured.Unstructured) error {
	data, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	return r.Client.Patch(ctx, wanted.DeepCopy(), client.RawPatch(types.MergePatchType, data), client.FieldOwner(FieldManager))
}

// applyConfiguration is the object as a set of fields that we want to own.
func (r *Reconciler) applyConfiguration(object client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(object, r.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("find kind of %T: %w", object, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", gvk.Kind, object.GetName(), err)
	}
	delete(fields, "status")
	dropNulls(fields)
	wanted := &unstructured.Unstructured{Object: fields}
	wanted.SetGroupVersionKind(gvk)
	data, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, fmt.Errorf("marshal %s %s: %w", gvk.Kind, object.GetName(), err)
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

// dropNulls removes fields that typed objects marshal although nothing was said of them.
func dropNulls(fields map[string]any) {
	for name, value := range fields {
		switch v := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			dropNulls(v)
		case []any:
			for _, element := range v {
				if m, ok := element.(map[string]any); ok {
					dropNulls(m)
				}
			}
		}
	}
}

// contains says whether everything that is wanted is there with the same value. More may be there: defaults, and what
// others own.
func contains(live, wanted any) bool {
	switch want := wanted.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return live == nil && len(want) == 0
		}
		for name, value := range want {
			if !contains(have[name], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := live.([]any)
		return containsList(have, want)
	}
	return live == wanted
}

// containsList compares elements that have names by name, for server-side apply may order them otherwise.
func containsList(have, want []any) bool {
	if len(have) != len(want) {
		return false
	}
	byName := map[string]any{}
	for _, element := range have {
		if name := nameOf(element); name != "" {
			byName[name] = element
		}
	}
	for i, element := range want {
		counterpart := have[i]
		if len(byName) == len(have) {
			counterpart = byName[nameOf(element)]
		}
		if !contains(counterpart, element) {
			return false
		}
	}
	return true
}

func nameOf(element any) string {
	fields, _ := element.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// foreign says that an object belongs to somebody else.
func foreign(object client.Object, cluster *v1alpha1.PostgresCluster) bool {
	return !metav1.IsControlledBy(object, cluster)
}
