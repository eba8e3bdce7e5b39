// Package refusals finds out why Kubernetes creates no pod for a Job or a StatefulSet: it says so in events only. They are read from the
// API server while a pod is missing, which is seldom and mostly for a moment, and not in each pass.
package refusals

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/howdah/pkg/workload"
)

const (
	// patience is how long a pod may be missing before anybody asks why: Kubernetes takes moments to create one.
	patience = 5 * time.Second
	// readAge is how old what was read may be before it is read again.
	readAge = 30 * time.Second
)

// Memory is what was read, by cluster. Its zero value remembers nothing.
type Memory struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]map[types.UID]*known
}

// known of an object whose pod is missing.
type known struct {
	since, readAt time.Time
	all           workload.Refusals
}

// Look says what is known of the objects of a cluster whose pods are missing in this pass. What it knew of others is forgotten.
func (m *Memory) Look(ctx context.Context, live client.Reader, cluster types.NamespacedName, owners []types.UID, now time.Time) map[types.UID]workload.Refusals {
	all := map[types.UID]workload.Refusals{}
	if len(owners) == 0 {
		m.Forget(cluster)
		return all
	}
	for owner, k := range m.of(cluster, owners, now) { // of this pass alone: there is one at a time for a cluster
		if now.Sub(k.since) >= patience && now.Sub(k.readAt) >= readAge {
			k.all, k.readAt = workload.ReadRefusals(ctx, live, cluster.Namespace, owner), now
		}
		all[owner] = k.all
	}
	return all
}

// of these objects, and of no other, is remembered from now on.
func (m *Memory) of(cluster types.NamespacedName, owners []types.UID, now time.Time) map[types.UID]*known {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, kept := m.clusters[cluster], map[types.UID]*known{}
	for _, owner := range owners {
		if kept[owner] = before[owner]; kept[owner] == nil {
			kept[owner] = &known{since: now}
		}
	}
	if m.clusters == nil {
		m.clusters = map[types.NamespacedName]map[types.UID]*known{}
	}
	m.clusters[cluster] = kept
	return kept
}

// Forget a cluster no pod of which is missing, or that no longer exists.
func (m *Memory) Forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
}
