//go:build integration

package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/rollout"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// lab is one namespace with a db-controller, and a stand-in for what runs nothing here: Kubernetes' controllers, kubelet
// and the agents.
type lab struct {
	*testing.T
	client.Client
	ns   string
	kube *standIn
	// patience is how long something may take.
	patience time.Duration
	writes   *writeCounter
	requests *requestCounter
	clock    *clock
	stop     func()
	// agent of the suite that is installed.
	agent workload.Agent
	// images of the suite that is installed.
	images manager.Images
	// rollouts are the settings of the suite that is installed.
	rollouts rollout.Settings
	// account that the controller acts with; nil: the administrator's.
	account func(*rest.Config, *ctrl.Options)
	// lifetime is how many writes a controller lives for; 0 is for ever.
	lifetime int
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel()
	c := apiserver.Client(t)
	l := &lab{T: t, Client: c, ns: apiserver.Namespace(t, c), clock: &clock{}, patience: 2 * time.Minute, agent: workload.Agent{Image: "agent:1"},
		images: manager.Images{15: "postgres:15", 17: "postgres:17", 18: "postgres:18"}}
	l.kube = newStandIn(c, l.ns)
	apiserver.StandIn(t, l.ns, l.kube.once)
	l.startController()
	return l
}

// startController starts a db-controller that looks at this namespace alone. Starting another is what a restart is.
func (l *lab) startController() {
	l.Helper()
	l.requests = &requestCounter{asked: map[string]int{}}
	l.stop = apiserver.Run(l.T, l.ns, l.setUp, func(server *rest.Config, options *ctrl.Options) {
		server.Wrap(l.requests.wrap)
		if l.account != nil {
			l.account(server, options)
		}
		options.Cache.ByObject, options.Cache.DefaultTransform = CacheOptions(), cache.TransformStripManagedFields()
		options.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	})
}

func (l *lab) setUp(_ context.Context, mgr ctrl.Manager) error {
	l.writes = &writeCounter{Client: mgr.GetClient(), left: l.lifetime, mortal: l.lifetime > 0, died: make(chan struct{})}
	dependencies := manager.NewDependencies(mgr, "db-controller", manager.Settings{
		Agent: l.agent, Images: l.images,
	})
	dependencies.Client, dependencies.Now = l.writes, l.clock.now
	return New(dependencies, l.kube, l.rollouts).SetupWithManager(mgr)
}

// shop is a PostgresCluster with as little as possible.
func (l *lab) shop(change func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	l.Helper()
	cluster := &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "shop"},
		Spec: v1alpha1.PostgresClusterSpec{
			Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
		},
	}
	if change != nil {
		change(cluster)
	}
	l.create(cluster)
	return cluster
}

// archivedShop makes one that archives, with what it archives to, and waits until it runs.
func (l *lab) archivedShop() *v1alpha1.PostgresCluster {
	l.Helper()
	l.create(repository(l.ns))
	l.create(credentials(l.ns))
	shop := l.shop(archived)
	l.awaitRunning(shop)
	return shop
}

func (l *lab) create(object client.Object) {
	l.Helper()
	if err := l.Create(context.Background(), object); err != nil {
		l.Fatal(err)
	}
}

// change reads an object, changes it and writes it, again if somebody else was faster.
func (l *lab) change(object client.Object, change func()) {
	l.Helper()
	l.eventually("change "+object.GetName(), func() bool {
		l.get(object)
		change()
		return l.Update(context.Background(), object) == nil
	})
}

// say writes the status of a peer's object, as the peer's controller would.
func (l *lab) say(object client.Object, change func()) {
	l.Helper()
	l.eventually("write the status of "+object.GetName(), func() bool {
		l.get(object)
		change()
		return l.Status().Update(context.Background(), object) == nil
	})
}

func (l *lab) get(object client.Object) {
	l.Helper()
	if err := l.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
		l.Fatal(err)
	}
}

// there says whether the object exists, and reads it.
func (l *lab) there(object client.Object, name string) bool {
	l.Helper()
	err := l.Get(context.Background(), client.ObjectKey{Namespace: l.ns, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		l.Fatal(err)
	}
	return err == nil
}

func (l *lab) eventually(what string, holds func() bool) {
	l.Helper()
	if !apiserver.Eventually(l.ns, l.patience, holds) {
		l.Fatalf("not within %s: %s\n%s", l.patience, what, l.picture())
	}
}

// awaitCondition waits for a condition with that status and reason, and returns its message.
func (l *lab) awaitCondition(cluster *v1alpha1.PostgresCluster, kind string, status metav1.ConditionStatus, reason string) string {
	l.Helper()
	var message string
	l.eventually(kind+"="+string(status)+" "+reason, func() bool {
		l.get(cluster)
		found := meta.FindStatusCondition(cluster.Status.Conditions, kind)
		if found == nil || found.Status != status || found.Reason != reason || cluster.Status.ObservedGeneration != cluster.Generation {
			return false
		}
		message = found.Message
		return true
	})
	return message
}

func (l *lab) awaitRunning(cluster *v1alpha1.PostgresCluster) {
	l.Helper()
	l.awaitCondition(cluster, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning)
	l.awaitCondition(cluster, v1alpha1.ConditionUpToDate, metav1.ConditionTrue, v1alpha1.ReasonCurrent)
}

// picture of the namespace for who has to find out why a test failed.
func (l *lab) picture() string {
	clusters := &v1alpha1.PostgresClusterList{}
	_ = l.List(context.Background(), clusters, client.InNamespace(l.ns))
	text := ""
	for _, c := range clusters.Items {
		fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Status)
		text += c.Name + ": " + toYAML(fields)
	}
	return text
}

// clock is the real one, but for what a test adds.
type clock struct {
	mu   sync.Mutex
	more time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.more)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more += d
}
