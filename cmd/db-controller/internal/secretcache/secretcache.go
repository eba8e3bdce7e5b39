package secretcache

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/component"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// secretAge is how long a Secret that was read counts as it was. Secrets are not watched, so that no controller may list
// everybody's; one that was changed by hand is put back that much later. Passwords are changed by hand, and what is made
// of them follows sooner.
const (
	SecretAge = 10 * time.Minute
	LoginAge  = 40 * time.Second // less than the shortest pause between two passes over an idle cluster
)

func ageOf(cluster *v1alpha1.PostgresCluster, name string) time.Duration {
	if names := component.NamesOf(cluster); name == names.App() || name == names.Superuser() {
		return LoginAge
	}
	return SecretAge
}

// Cache keeps the Secrets of clusters for a while, so that an idle cluster costs few reads.
type Cache struct {
	mu    sync.Mutex
	known map[types.NamespacedName]map[string]knownSecret
}

type knownSecret struct {
	secret *corev1.Secret
	at     time.Time
}

// Read is nil for a Secret that isn't there.
func (m *Cache) Read(ctx context.Context, reader client.Reader, cluster *v1alpha1.PostgresCluster, name string, now time.Time) (*corev1.Secret, error) {
	if known := m.Get(cluster, name, now); known != nil {
		return known, nil
	}
	secret := &corev1.Secret{}
	found, err := observed.Read(ctx, reader, cluster.Namespace, name, secret)
	if err != nil || !found {
		return nil, err
	}
	m.Put(cluster, secret, now)
	return secret, nil
}

// BorrowedAge is the same for Secrets that are a person's: a password that was changed there is to count within a minute.
const BorrowedAge = 20 * time.Second

// Borrow reads a Secret that somebody else has made. It is nil for one that isn't there.
func (m *Cache) Borrow(ctx context.Context, reader client.Reader, cluster *v1alpha1.PostgresCluster, name string, now time.Time) (*corev1.Secret, error) {
	m.mu.Lock()
	known, found := m.known[client.ObjectKeyFromObject(cluster)][name]
	m.mu.Unlock()
	if found && now.Sub(known.at) <= BorrowedAge {
		return known.secret.DeepCopy(), nil
	}
	secret := &corev1.Secret{}
	found, err := observed.Read(ctx, reader, cluster.Namespace, name, secret)
	if err != nil || !found {
		return nil, err
	}
	m.Put(cluster, secret, now)
	return secret, nil
}

// Get returns a Secret that was read or written lately; nil: it has to be read.
func (m *Cache) Get(cluster *v1alpha1.PostgresCluster, name string, now time.Time) *corev1.Secret {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, found := m.known[client.ObjectKeyFromObject(cluster)][name]
	if !found || now.Sub(known.at) > ageOf(cluster, name) || !metav1.IsControlledBy(known.secret, cluster) {
		return nil
	}
	return known.secret.DeepCopy()
}

// Put keeps a Secret as it was read or written.
func (m *Cache) Put(cluster *v1alpha1.PostgresCluster, secret *corev1.Secret, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[types.NamespacedName]map[string]knownSecret{}
	}
	name := client.ObjectKeyFromObject(cluster)
	if m.known[name] == nil {
		m.known[name] = map[string]knownSecret{}
	}
	kept := secret.DeepCopy()
	kept.ManagedFields = nil
	m.known[name][secret.Name] = knownSecret{kept, now}
}

// Drop makes the next pass read the Secret.
func (m *Cache) Drop(cluster *v1alpha1.PostgresCluster, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known[client.ObjectKeyFromObject(cluster)], name)
}

// Forget a cluster that is gone.
func (m *Cache) Forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, cluster)
}
