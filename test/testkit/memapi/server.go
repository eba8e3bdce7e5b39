// Package memapi is an API server in memory, for many short lives of controllers in one goroutine: optimistic locking, finalizers,
// preconditions, the status apart from the rest, server-side apply, garbage collection, and caches that lag. What a test is not meant
// to find is left out: admission, conversion, and lists that are merged element by element.
package memapi

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Server has the objects. What it keeps is never changed, only replaced.
type Server struct {
	scheme *runtime.Scheme
	now    func() time.Time
	// Admit says why an object is not created, such as a quota; nil: everything is.
	Admit func(client.Object) error

	mu      sync.Mutex
	objects map[key]client.Object
	// sorted are the keys of the objects; nil: one came or went since they were sorted.
	sorted []key
	// applied are the fields that each manager has applied.
	applied map[key]map[string]map[string]any
	// changes of each kind, in order.
	changes map[string][]Change
	version int64
	uids    int
}

// key of an object.
type key struct{ kind, namespace, name string }

// Change is what became of an object: Now is nil if it was deleted, and Old if it was created.
type Change struct{ Old, Now client.Object }

// Object is the one that changed.
func (c Change) Object() client.Object {
	if c.Now == nil {
		return c.Old
	}
	return c.Now
}

// New returns a server without objects.
func New(scheme *runtime.Scheme, now func() time.Time) *Server {
	return &Server{
		scheme: scheme, now: now, version: 1, objects: map[key]client.Object{}, applied: map[key]map[string]map[string]any{}, changes: map[string][]Change{},
	}
}

// Version counts the writes.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Kinds are those of which there are objects, or were.
func (s *Server) Kinds() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.changes))
}

// All objects, by kind and name.
func (s *Server) All() []client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]client.Object, 0, len(s.objects))
	for _, k := range s.keys() {
		all = append(all, s.objects[k])
	}
	return all
}

// keys of all objects, in order. Nobody changes the list.
func (s *Server) keys() []key {
	if s.sorted == nil {
		s.sorted = sortedKeys(s.objects)
	}
	return s.sorted
}

func sortedKeys(objects map[key]client.Object) []key {
	return slices.SortedFunc(maps.Keys(objects), func(a, b key) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
}

func (s *Server) keyOf(object client.Object) (key, schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(object, s.scheme)
	return key{gvk.Kind, object.GetNamespace(), object.GetName()}, gvk, err
}

// fields of an object as they are on the wire.
func (s *Server) fields(object client.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", object, err)
	}
	return fields, nil
}

// typed makes an object of fields.
func (s *Server) typed(gvk schema.GroupVersionKind, fields map[string]any) (client.Object, error) {
	made, err := s.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", gvk.Kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, made); err != nil {
		return nil, fmt.Errorf("convert %s: %w", gvk.Kind, err)
	}
	object := made.(client.Object)
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // typed objects don't carry their kind
	return object, nil
}

// give puts a stored object into the one of a caller.
func (s *Server) give(stored, into client.Object) error {
	if reflect.TypeOf(stored) == reflect.TypeOf(into) {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(stored.DeepCopyObject()).Elem())
		return nil
	}
	gvk, err := apiutil.GVKForObject(into, s.scheme)
	if err != nil {
		return err
	}
	fields := s.mustFields(stored)
	if u, is := into.(*unstructured.Unstructured); is {
		u.Object = fields
		u.SetGroupVersionKind(gvk)
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
		return fmt.Errorf("convert %s: %w", gvk.Kind, err)
	}
	return nil
}

// put stores an object under the next version, or removes one.
func (s *Server) put(k key, object client.Object) {
	old := s.objects[k]
	s.version++
	if old == nil || object == nil {
		s.sorted = nil
	}
	if object == nil {
		delete(s.objects, k)
		delete(s.applied, k)
	} else {
		object.SetResourceVersion(fmt.Sprint(s.version))
		s.objects[k] = object
	}
	s.changes[k.kind] = append(s.changes[k.kind], Change{Old: old, Now: object})
}

func (s *Server) newUID() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", s.uids))
}

func resourceOf(k key) schema.GroupResource { return schema.GroupResource{Resource: k.kind} }

func notFound(k key) error { return apierrors.NewNotFound(resourceOf(k), k.name) }

func conflict(k key, format string, args ...any) error {
	return apierrors.NewConflict(resourceOf(k), k.name, fmt.Errorf(format, args...))
}
