package memapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CollectGarbage does what the garbage collector would: it deletes what has lost all its owners, and ends deletions that wait for
// dependents or leave them behind. It says whether there was anything to do.
func (s *Server) CollectGarbage() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.version
	there := map[types.UID]client.Object{}
	dependents := map[types.UID][]key{}
	for _, k := range s.keys() {
		object := s.objects[k]
		there[object.GetUID()] = object
		for _, owner := range object.GetOwnerReferences() {
			dependents[owner.UID] = append(dependents[owner.UID], k)
		}
	}
	for _, k := range s.keys() {
		object := s.objects[k]
		switch {
		case object == nil: // it went with another
		case object.GetDeletionTimestamp() == nil:
			s.collect(k, there)
		case slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents):
			for _, dependent := range dependents[object.GetUID()] {
				s.disown(dependent, object.GetUID())
			}
			s.dropFinalizer(k, metav1.FinalizerOrphanDependents)
		case slices.Contains(object.GetFinalizers(), metav1.FinalizerDeleteDependents):
			s.endForeground(k, dependents[object.GetUID()])
		}
	}
	return s.version > before
}

// collect deletes an object all of whose owners are missing.
func (s *Server) collect(k key, there map[types.UID]client.Object) {
	owners := s.objects[k].GetOwnerReferences()
	if len(owners) == 0 || slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return there[o.UID] != nil }) {
		return
	}
	_ = s.remove(k, client.DeleteOptions{}) // it is there
}

func (s *Server) endForeground(k key, dependents []key) {
	left := false
	for _, dependent := range dependents {
		object := s.objects[dependent]
		if object == nil {
			continue
		}
		left = true
		if object.GetDeletionTimestamp() == nil {
			_ = s.remove(dependent, client.DeleteOptions{}) // it is there
		}
	}
	if !left {
		s.dropFinalizer(k, metav1.FinalizerDeleteDependents)
	}
}

func (s *Server) disown(k key, owner types.UID) {
	object := s.objects[k]
	if object == nil {
		return
	}
	changed := object.DeepCopyObject().(client.Object)
	changed.SetOwnerReferences(slices.DeleteFunc(changed.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == owner }))
	s.put(k, changed)
}

func (s *Server) dropFinalizer(k key, finalizer string) {
	object := s.objects[k]
	changed := object.DeepCopyObject().(client.Object)
	changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), func(f string) bool { return f == finalizer }))
	if len(changed.GetFinalizers()) == 0 && !graceful(changed) {
		s.put(k, nil)
		return
	}
	s.put(k, changed)
}
