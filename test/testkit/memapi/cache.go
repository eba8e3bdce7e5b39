package memapi

import (
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
)

// Cache is what one process has been told of: each kind on its own lags behind the server by some changes.
type Cache struct {
	server *Server
	seen   map[string]int
	view   map[key]client.Object
}

// NewCache returns the cache of a process that has just started: it has listed everything.
func (s *Server) NewCache() *Cache {
	c := &Cache{server: s, seen: map[string]int{}, view: map[key]client.Object{}}
	c.CatchUp()
	return c
}

// CatchUp has the cache show everything, and returns what has changed in it.
func (c *Cache) CatchUp() []Change { return c.advance(func(behind int) int { return behind }) }

// Advance has the cache show some of what it lags behind, another number of changes for each kind.
func (c *Cache) Advance(random *rand.Rand) []Change {
	return c.advance(func(behind int) int { return random.IntN(behind + 1) })
}

// Lags says whether there is something that the cache doesn't show.
func (c *Cache) Lags() bool {
	for _, kind := range c.server.Kinds() {
		if c.seen[kind] < len(c.server.changes[kind]) {
			return true
		}
	}
	return false
}

func (c *Cache) advance(many func(behind int) int) (changes []Change) {
	for _, kind := range c.server.Kinds() {
		c.server.mu.Lock()
		all := c.server.changes[kind]
		c.server.mu.Unlock()
		if behind := len(all) - c.seen[kind]; behind > 0 {
			next := c.seen[kind] + many(behind)
			for _, change := range all[c.seen[kind]:next] {
				if c.show(kind, change) {
					changes = append(changes, change)
				}
			}
			c.seen[kind] = next
		}
	}
	return changes
}

// show a change, if it is of an object that the cache keeps.
func (c *Cache) show(kind string, change Change) bool {
	k := key{kind, change.Object().GetNamespace(), change.Object().GetName()}
	if change.Now == nil || !kept(change.Now) {
		_, had := c.view[k]
		delete(c.view, k)
		return had
	}
	c.view[k] = change.Now
	return true
}

// kept: the caches of the controllers keep of Kubernetes' own kinds only what Howdah has made.
func kept(object client.Object) bool {
	switch object.(type) {
	case *v1alpha1.PostgresCluster, *v1alpha1.Restore, *v1alpha1.Upgrade, *v1alpha1.Backup, *v1alpha1.BackupRepository, *v1alpha1.Pooler, *v1alpha1.FailoverDrill, *v1alpha1.FailoverDrillSchedule:
		return true
	}
	return object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
}

// uncached kinds are read from the server itself.
func uncached(object client.Object) bool { _, is := object.(*corev1.Secret); return is }
