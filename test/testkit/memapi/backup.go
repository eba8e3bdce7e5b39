package memapi

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Backup is what the server had at a time.
type Backup struct {
	objects map[key]client.Object
	applied map[key]map[string]map[string]any
}

// Backup of everything.
func (s *Server) Backup() *Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &Backup{objects: maps.Clone(s.objects), applied: map[key]map[string]map[string]any{}}
	for k, managers := range s.applied {
		b.applied[k] = maps.Clone(managers)
	}
	return b
}

// Restore has the server be as it was at the time of a backup, under versions that nobody has seen, as whoever restores etcd has to see
// to. What but excludes stays as it is.
func (s *Server) Restore(b *Backup, but func(client.Object) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Clone(s.keys()) {
		if then, now := b.objects[k], s.objects[k]; then == nil && !but(now) {
			s.put(k, nil)
		}
	}
	for _, k := range sortedKeys(b.objects) {
		then, now := b.objects[k], s.objects[k]
		if then == now || but(then) {
			continue
		}
		if now != nil && now.GetUID() != then.GetUID() {
			s.put(k, nil)
		}
		s.put(k, then.DeepCopyObject().(client.Object))
		s.applied[k] = maps.Clone(b.applied[k])
	}
}
