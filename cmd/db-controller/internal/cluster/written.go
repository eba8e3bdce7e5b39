package cluster

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

const (
	// madeAge is how long what we have written counts while the cache doesn't show it.
	madeAge = 5 * time.Second
	// seenAge is how long a Lease, or a Secret of a repository, that was read past the cache counts as it was, where nothing
	// is decided on it that can't be undone.
	seenAge = 10 * time.Second
	// initAge is how long a Lease counts that was made before there was an agent to take it.
	initAge = 10 * time.Minute
)

// written is what this process has written and its cache may not show yet, and what it has just read that is in no cache.
// It saves reads of the API server, and nothing depends on it: a process that has just begun knows nothing.
type written struct {
	mu    sync.Mutex
	known map[types.NamespacedName]*writtenOf
}

// writtenOf is that of one cluster.
type writtenOf struct {
	uid types.UID
	// replaced are the versions of the PostgresCluster that we have written over last, and when that was.
	replaced   []string
	replacedAt time.Time
	// newsAt is since when there are news of it that are not written yet.
	newsAt time.Time
	// alone: this process has begun the cluster, and nothing has failed since, so it knows all that there is of it.
	alone   bool
	objects map[string]madeObject
}

type madeObject struct {
	object client.Object
	at     time.Time
}

// of a cluster; what was written for one of the same name before it counts for nothing.
func (m *written) of(cluster *v1alpha1.PostgresCluster) *writtenOf {
	name := client.ObjectKeyFromObject(cluster)
	if m.known == nil {
		m.known = map[types.NamespacedName]*writtenOf{}
	}
	if known := m.known[name]; known == nil || known.uid != cluster.UID {
		m.known[name] = &writtenOf{uid: cluster.UID, objects: map[string]madeObject{}}
	}
	return m.known[name]
}

// stale: the cache still shows what we have written over.
func (m *written) stale(cluster *v1alpha1.PostgresCluster, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.of(cluster)
	return now.Sub(last.replacedAt) <= madeAge && slices.Contains(last.replaced, cluster.ResourceVersion)
}

// replace notes which versions we have written over.
func (m *written) replace(cluster *v1alpha1.PostgresCluster, versions []string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.of(cluster)
	last.replaced, last.replacedAt = versions, now
	if len(versions) > 0 {
		last.newsAt = time.Time{}
	}
}

// news is since when there are such that wait.
func (m *written) news(cluster *v1alpha1.PostgresCluster, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.of(cluster)
	if last.newsAt.IsZero() {
		last.newsAt = now
	}
	return last.newsAt
}

// dropNews: there are none, or they are about to be written.
func (m *written) dropNews(cluster *v1alpha1.PostgresCluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(cluster).newsAt = time.Time{}
}

// alone: this process has begun the cluster, and nothing has failed since, so it knows all that there is of it.
func (m *written) alone(cluster *v1alpha1.PostgresCluster) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(cluster).alone
}

func (m *written) setAlone(cluster *v1alpha1.PostgresCluster, alone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(cluster).alone = alone
}

// put notes an object as it came from the API server. One without a UID did not.
func (m *written) put(cluster *v1alpha1.PostgresCluster, key string, object client.Object, now time.Time) {
	if object.GetUID() == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(cluster).objects[key] = madeObject{object.DeepCopyObject().(client.Object), now}
}

// get is nil for an object that was not noted, or too long ago.
func (m *written) get(cluster *v1alpha1.PostgresCluster, key string, age time.Duration, now time.Time) client.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	made, found := m.of(cluster).objects[key]
	if !found || now.Sub(made.at) > age {
		return nil
	}
	return made.object.DeepCopyObject().(client.Object)
}

// drop forgets an object: the cache has it, or it is about to go.
func (m *written) drop(cluster *v1alpha1.PostgresCluster, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of(cluster).objects, key)
}

// forget a cluster that is gone.
func (m *written) forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, cluster)
}
