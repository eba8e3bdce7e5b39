package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Settled remembers of which objects it was found that they are as they are desired. Comparing two objects field by field is most of
// what a pass costs in which there is nothing to do. Its zero value knows of none, and nil remembers nothing.
type Settled struct {
	mu    sync.Mutex
	known map[types.NamespacedName]map[string]mark
}

// mark is of an object as it is desired and as it is: if neither has changed, they don't differ either. The zero value is of none.
type mark [sha256.Size / 2]byte

// markOf an object that is there.
func markOf(desired, live client.Object) (mark, error) {
	if live == nil {
		return mark{}, nil
	}
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(desired); err != nil {
		return mark{}, fmt.Errorf("marshal %s: %w", desired.GetName(), err)
	}
	fmt.Fprintln(sum, live.GetUID(), live.GetResourceVersion())
	return mark(sum.Sum(nil)[:len(mark{})]), nil
}

func (s *Settled) is(cluster *v1alpha1.PostgresCluster, key string, m mark) bool {
	if s == nil || m == (mark{}) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.known[client.ObjectKeyFromObject(cluster)][key]
	return found && known == m
}

func (s *Settled) note(cluster *v1alpha1.PostgresCluster, key string, m mark) {
	if s == nil || m == (mark{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[types.NamespacedName]map[string]mark{}
	}
	name := client.ObjectKeyFromObject(cluster)
	if s.known[name] == nil {
		s.known[name] = map[string]mark{}
	}
	s.known[name][key] = m
}

// Forget a cluster that no longer exists.
func (s *Settled) Forget(cluster types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, cluster)
}
