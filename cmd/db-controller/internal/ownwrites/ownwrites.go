// Package ownwrites guarantees read-your-writes over an informer cache that lags: a pass over a cluster sees everything that
// this process has written to it before.
//
//   - A pass doesn't begin on a version of the PostgresCluster that this process has overwritten (View.Stale).
//   - An object that this process has created is there for every later pass, from memory until the cache shows it.
//   - Of a cluster that this process has begun, an object that neither of them has does not exist, or is somebody else's. The API
//     server is not asked: the write that creates the object fails with ErrTaken if it does exist, and from then on it is asked.
//
// All of this only saves requests. A process that has just started remembers nothing, and reads from the API server what the
// cache lacks.
package ownwrites

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
)

// Age is how long a write is remembered while the cache doesn't show it.
const Age = 5 * time.Second

var (
	// ErrStale is returned when the cache doesn't show yet what this process has written, and memory can't stand in for it.
	ErrStale = fmt.Errorf("the cache lags behind the API server: %w", flow.ErrStale)
	// ErrTaken is returned for a write that meets an object which was taken not to exist.
	ErrTaken = fmt.Errorf("the name is taken: %w", flow.ErrStale)
)

// Memory is what this process has written, by cluster. Its zero value remembers nothing.
type Memory struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]*memory
}

// memory of one cluster.
type memory struct {
	uid types.UID
	// overwritten are the versions of the PostgresCluster that the last pass wrote over, until overwrittenAt.
	overwritten   []string
	overwrittenAt time.Time
	// begun: this process has begun the cluster, and nothing has failed since.
	begun   bool
	objects map[string]remembered
}

type remembered struct {
	object client.Object
	at     time.Time
}

// View is what is remembered of one cluster, for one pass. Another cluster that had the same name before has no part in it.
func (m *Memory) View(cluster *v1alpha1.PostgresCluster, cache, live client.Reader, now func() time.Time) *View {
	v := &View{memory: m, cluster: cluster, cache: cache, live: live, now: now}
	m.of(cluster, func(known *memory) { v.begun = known.begun })
	v.complete = v.begun && cluster.Status.SystemIdentifier == "" && cluster.DeletionTimestamp.IsZero()
	return v
}

// Forget what is remembered of a cluster that no longer exists.
func (m *Memory) Forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
}

// of has something done with the memory of a cluster.
func (m *Memory) of(cluster *v1alpha1.PostgresCluster, do func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := client.ObjectKeyFromObject(cluster)
	if m.clusters == nil {
		m.clusters = map[types.NamespacedName]*memory{}
	}
	if known := m.clusters[name]; known == nil || known.uid != cluster.UID {
		m.clusters[name] = &memory{uid: cluster.UID, objects: map[string]remembered{}}
	}
	do(m.clusters[name])
}

// overwrote reports that this version was overwritten so short a time ago that the cache may still show it.
func (m *memory) overwrote(version string, now time.Time) bool {
	return now.Sub(m.overwrittenAt) <= Age && slices.Contains(m.overwritten, version)
}
