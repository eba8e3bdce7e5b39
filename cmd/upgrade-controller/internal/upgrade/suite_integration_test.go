//go:build integration

package upgrade

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/mortal"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// lab is one namespace with an upgrade-controller, the cluster shop, and a stand-in for the other controllers and the Jobs.
type lab struct {
	*testing.T
	client.Client
	ns   string
	shop *v1alpha1.PostgresCluster
	// patience is how long something may take.
	patience time.Duration

	mu sync.Mutex
	// check and work are how the Jobs end; nil: they run on.
	check, work *agentapi.Outcome
	// lags: the replica lacks something when all is stopped. comparing: the Job that looks at the volume of the primary runs on.
	lags, comparing bool
	// look is how the Job ends that checks the copy of a rehearsal; fails: that can't be restored, and why; lineage of the backup, if
	// not that of the cluster.
	look           *agentapi.Outcome
	fails, another string
	refuses        string // data generation that the cluster doesn't start on
	backsUp        bool   // backups that are asked for are taken

	stop func()
	// process: the controller dies with its first write; nil: it doesn't.
	process *mortal.Process
	// ahead is how far the controller's clock is before the real one.
	ahead atomic.Int64
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel()
	c := apiserver.Client(t)
	l := &lab{T: t, Client: c, ns: apiserver.Namespace(t, c), patience: 4 * time.Minute, check: result(agentapi.UpgradeCheckResult{})}
	apiserver.StandIn(t, l.ns, l.standIn)
	l.shop = l.running()
	return l
}

// running makes the cluster shop, which runs PostgreSQL 17 on data generation g0.
func (l *lab) running() *v1alpha1.PostgresCluster {
	l.Helper()
	shop := &v1alpha1.PostgresCluster{ObjectMeta: l.meta("shop")}
	if err := l.begins(context.Background(), shop); err != nil {
		l.Fatal(err)
	}
	return shop
}

// begins makes a cluster that runs PostgreSQL 17 on data generation g0.
func (l *lab) begins(ctx context.Context, shop *v1alpha1.PostgresCluster) error {
	shop.Spec = v1alpha1.PostgresClusterSpec{Version: 17, Instances: 2, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}}
	if _, copied := shop.Annotations[v1alpha1.AnnotationRestoredBy]; !copied {
		shop.Spec.Archive = &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "repo"}}
	}
	if err := l.Create(ctx, shop); err != nil {
		return err
	}
	before := shop.DeepCopy()
	shop.Status = v1alpha1.PostgresClusterStatus{
		ObservedGeneration: shop.Generation, DataGeneration: "g0", SystemIdentifier: "7", MajorVersion: 17, Image: "postgres:17",
		Primary: shop.Name + "-0", Instances: []v1alpha1.InstanceStatus{
			{Name: shop.Name + "-0", Role: v1alpha1.RolePrimary, Ready: true}, {Name: shop.Name + "-1", Role: v1alpha1.RoleReplica, Ready: true, Streaming: true},
		},
		Connection: &v1alpha1.ConnectionStatus{Host: shop.Name + "-rw", ConfigMap: shop.Name + "-connection", UpgradeSecret: shop.Name + "-upgrade", SuperuserSecret: shop.Name + "-superuser"},
	}
	meta.SetStatusCondition(&shop.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRunning})
	return l.Status().Patch(ctx, shop, client.MergeFrom(before))
}

func (l *lab) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.ns, Name: name}
}

// startController starts an upgrade-controller that looks at this namespace alone.
func (l *lab) startController() {
	l.Helper()
	l.stop = apiserver.Run(l.T, l.ns, func(_ context.Context, mgr ctrl.Manager) error {
		reconciler := New(manager.NewDependencies(mgr, "upgrade-controller", manager.Settings{Agent: workload.Agent{Image: "agent:1"}, Images: manager.Images{17: "postgres:17", 18: "postgres:18"}}))
		reconciler.Now = func() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }
		if l.process != nil {
			reconciler.Client = l.process.Wrap(reconciler.Client)
		}
		return manager.Register(mgr, reconciler, &Policy{Dependencies: reconciler.Dependencies})
	})
}

// set changes what the stand-in does from now on.
func (l *lab) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// upgrade makes an Upgrade of the cluster shop to PostgreSQL 18.
func (l *lab) upgrade(change func(*v1alpha1.UpgradeSpec)) *v1alpha1.Upgrade {
	l.Helper()
	upgrade := &v1alpha1.Upgrade{ObjectMeta: l.meta("u"), Spec: v1alpha1.UpgradeSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: 18}}
	if change != nil {
		change(&upgrade.Spec)
	}
	if err := l.Create(context.Background(), upgrade); err != nil {
		l.Fatal(err)
	}
	return upgrade
}

func (l *lab) eventually(what string, holds func() bool, now func() string) {
	l.Helper()
	if !apiserver.Eventually(l.ns, l.patience, holds) {
		l.Fatalf("not within %s: %s; now: %s", l.patience, what, now())
	}
}

// there says whether the object exists, and reads it.
func (l *lab) there(object client.Object) bool {
	l.Helper()
	err := l.Get(context.Background(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		l.Fatal(err)
	}
	return err == nil
}

func (l *lab) job(name string) *batchv1.Job { return &batchv1.Job{ObjectMeta: l.meta(name)} }
