package memapi

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// firstVersion is a version that no object has, as with the real one: to name it says that there must be none.
const firstVersion = "1"

// create stores a new object, without what only a status subresource takes.
func (s *Server) create(object client.Object) (client.Object, error) {
	k, gvk, err := s.keyOf(object)
	if err != nil {
		return nil, err
	}
	if s.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(k), k.name)
	}
	if s.Admit != nil {
		if err := s.Admit(object); err != nil {
			return nil, err
		}
	}
	fields, err := s.fields(object)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	made, err := s.typed(gvk, fields)
	if err != nil {
		return nil, err
	}
	made.SetUID(s.newUID())
	made.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	made.SetGeneration(1)
	made.SetDeletionTimestamp(nil)
	complete(made)
	s.put(k, made)
	return made, nil
}

// part of an object that a write is about.
type part string

const (
	main   part = ""
	status part = "status"
)

// change replaces an object by other fields, as far as the part goes. A write that changes nothing is none.
func (s *Server) change(k key, gvk schema.GroupVersionKind, wanted map[string]any, of part) (client.Object, error) {
	old := s.objects[k]
	if old == nil {
		return nil, notFound(k)
	}
	if err := expected(k, old, wanted); err != nil {
		return nil, err
	}
	current, err := s.fields(old)
	if err != nil {
		return nil, err
	}
	fields := merged(current, wanted, of)
	made, err := s.typed(gvk, fields)
	if err != nil {
		return nil, err
	}
	keepMeta(old, made)
	complete(made)
	if equality.Semantic.DeepEqual(old, made) {
		return old, nil
	}
	if of == main && specChanged(current, s.mustFields(made)) {
		made.SetGeneration(old.GetGeneration() + 1)
	}
	if made.GetDeletionTimestamp() != nil && len(made.GetFinalizers()) == 0 && !graceful(made) {
		made.SetResourceVersion(fmt.Sprint(s.version + 1))
		s.put(k, nil)
		return made, nil
	}
	s.put(k, made)
	return made, nil
}

func (s *Server) mustFields(object client.Object) map[string]any {
	fields, err := s.fields(object)
	if err != nil {
		panic(err) // it was made of fields
	}
	return fields
}

// expected says whether the object is the one, and of the version, that a write names.
func expected(k key, old client.Object, wanted map[string]any) error {
	u := unstructured.Unstructured{Object: wanted}
	if uid := u.GetUID(); uid != "" && uid != old.GetUID() {
		return conflict(k, "the UID in the precondition is %s, the one of the object is %s", uid, old.GetUID())
	}
	if version := u.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return conflict(k, "the object has been modified")
	}
	return nil
}

// merged are the fields after a write of the part.
func merged(current, wanted map[string]any, of part) map[string]any {
	fields := map[string]any{}
	from, rest := wanted, current
	if of == status {
		from, rest = current, wanted
	}
	for name, value := range from {
		if name != "status" {
			fields[name] = value
		}
	}
	if value, has := rest["status"]; has {
		fields["status"] = value
	}
	return fields
}

// keepMeta keeps what no write changes.
func keepMeta(old, made client.Object) {
	made.SetUID(old.GetUID())
	made.SetCreationTimestamp(old.GetCreationTimestamp())
	made.SetGeneration(old.GetGeneration())
	made.SetDeletionTimestamp(old.GetDeletionTimestamp())
	made.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	made.SetResourceVersion(old.GetResourceVersion())
	made.SetManagedFields(nil)
}

func specChanged(a, b map[string]any) bool {
	for _, fields := range []map[string]any{a, b} {
		for name := range fields {
			if name != "metadata" && name != "status" && !reflect.DeepEqual(a[name], b[name]) {
				return true
			}
		}
	}
	return false
}

// mergePatch has the fields become what a JSON merge patch says.
func mergePatch(fields, patch map[string]any) {
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			inner, is := fields[name].(map[string]any)
			if !is {
				inner = map[string]any{}
			}
			mergePatch(inner, v)
			fields[name] = inner
		default:
			fields[name] = value
		}
	}
}

// patch applies a JSON merge patch to a part of an object.
func (s *Server) patch(k key, gvk schema.GroupVersionKind, data []byte, of part) (client.Object, error) {
	old := s.objects[k]
	if old == nil {
		return nil, notFound(k)
	}
	wanted := map[string]any{}
	if err := json.Unmarshal(data, &wanted); err != nil {
		return nil, fmt.Errorf("read patch: %w", err)
	}
	if err := expected(k, old, wanted); err != nil {
		return nil, err
	}
	fields := s.mustFields(old)
	mergePatch(fields, wanted)
	return s.change(k, gvk, fields, of)
}

// apply is a server-side apply that forces: the manager owns the fields from then on, and those that it wants no more are removed.
func (s *Server) apply(wanted *unstructured.Unstructured, manager string, of part) (client.Object, error) {
	k, gvk, err := s.keyOf(wanted)
	if err != nil {
		return nil, err
	}
	named := wanted.GetResourceVersion()
	fields := runtimeCopy(wanted.Object)
	if s.objects[k] == nil {
		return s.applyNew(k, wanted, manager, named)
	}
	if named == firstVersion {
		return nil, apierrors.NewAlreadyExists(resourceOf(k), k.name)
	}
	old := s.mustFields(s.objects[k])
	for name := range s.applied[k][manager] {
		if name != "metadata" || of == main {
			withdraw(old, s.applied[k][manager], fields)
			break
		}
	}
	mergePatch(old, fields)
	made, err := s.change(k, gvk, old, of)
	if err == nil {
		s.note(k, manager, fields)
	}
	return made, err
}

func (s *Server) applyNew(k key, wanted *unstructured.Unstructured, manager, version string) (client.Object, error) {
	if version != "" && version != firstVersion || wanted.GetUID() != "" {
		return nil, conflict(k, "there is no such object")
	}
	object := wanted.DeepCopy()
	object.SetResourceVersion("")
	made, err := s.create(object)
	if err == nil {
		s.note(k, manager, runtimeCopy(wanted.Object))
	}
	return made, err
}

// note what a manager has applied.
func (s *Server) note(k key, manager string, fields map[string]any) {
	if s.applied[k] == nil {
		s.applied[k] = map[string]map[string]any{}
	}
	s.applied[k][manager] = fields
}

// withdraw removes the fields that were applied before and are not wanted any more.
func withdraw(fields, before, wanted map[string]any) {
	for name, value := range before {
		now, still := wanted[name]
		inner, is := value.(map[string]any)
		there, has := fields[name].(map[string]any)
		switch {
		case is && has && still:
			if nowInner, is := now.(map[string]any); is {
				withdraw(there, inner, nowInner)
			}
		case is && has:
			withdraw(there, inner, map[string]any{})
			if len(there) == 0 {
				delete(fields, name)
			}
		case !still:
			delete(fields, name)
		}
	}
}

func runtimeCopy(fields map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: fields}).DeepCopy().Object
}

// remove deletes an object, or marks it as being deleted where somebody has yet to agree.
func (s *Server) remove(k key, options client.DeleteOptions) error {
	old := s.objects[k]
	if old == nil {
		return notFound(k)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return conflict(k, "the precondition doesn't hold")
		}
	}
	made := old.DeepCopyObject().(client.Object)
	switch ptr.Deref(options.PropagationPolicy, metav1.DeletePropagationBackground) {
	case metav1.DeletePropagationForeground:
		addFinalizer(made, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		addFinalizer(made, metav1.FinalizerOrphanDependents)
	}
	grace := graceOf(made, options.GracePeriodSeconds)
	if len(made.GetFinalizers()) == 0 && grace == 0 {
		s.put(k, nil)
		return nil
	}
	if made.GetDeletionTimestamp() == nil || pod(made) && grace < ptr.Deref(made.GetDeletionGracePeriodSeconds(), 0) {
		at := metav1.NewTime(s.now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
		made.SetDeletionTimestamp(&at)
		made.SetDeletionGracePeriodSeconds(&grace)
		made.SetGeneration(made.GetGeneration() + 1)
	}
	if !equality.Semantic.DeepEqual(made, old) {
		s.put(k, made)
	}
	return nil
}

func addFinalizer(object client.Object, finalizer string) {
	if !slices.Contains(object.GetFinalizers(), finalizer) {
		object.SetFinalizers(append(slices.Clone(object.GetFinalizers()), finalizer))
	}
}

func pod(object client.Object) bool { _, is := object.(*corev1.Pod); return is }

// graceOf is how many seconds kubelet may take to end a pod.
func graceOf(object client.Object, asked *int64) int64 {
	p, is := object.(*corev1.Pod)
	if !is || p.Spec.NodeName == "" {
		return 0
	}
	return ptr.Deref(asked, ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 30))
}

// graceful: kubelet has yet to end the pod.
func graceful(object client.Object) bool {
	return pod(object) && ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0) > 0
}
