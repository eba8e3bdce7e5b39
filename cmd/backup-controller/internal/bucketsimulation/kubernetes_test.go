package bucketsimulation

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/backup"
	"howdah.dev/howdah/cmd/backup-controller/internal/deletionlock"
	"howdah.dev/howdah/cmd/backup-controller/internal/pruning"
	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/cmd/backup-controller/internal/repository"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

const namespace = "demo"

var errCrash = errors.New("crash")

// kubernetes is one Kubernetes with a backup-controller, whose clock is wrong by up to a quarter of an hour: a server refuses more.
type kubernetes struct {
	*world
	name string
	api  client.WithWatch
	lost bool
	// repo was created at since, and its policy was set then.
	since, policySince time.Time
	policy             *v1alpha1.RetentionSpec
	wrote              map[string]bool // lineages
	*process
}

// process is a backup-controller from its start to its end.
type process struct {
	backups      *backup.Reconciler
	repositories *repository.Reconciler
	skew         time.Duration
	end          context.CancelFunc

	mu sync.Mutex
	// left is how many calls of the store and of the API server it makes yet; negative: any number. At the last one it crashes, which is
	// done or not.
	left int
	done bool
	// meanwhile is done by somebody else before one of its calls.
	meanwhile func()
}

func (w *world) newKubernetes(name string) *kubernetes {
	k := &kubernetes{world: w, name: name, wrote: map[string]bool{}}
	uids := 0
	k.api = interceptor.NewClient(fakeapi.New(
		&v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		&v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
	), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			uids++
			object.SetUID(types.UID(fmt.Sprintf("%s-%d", name, uids)))
			return c.Create(ctx, object, opts...)
		},
	})
	k.restart()
	return k
}

// restart begins another process.
func (k *kubernetes) restart() {
	if k.process != nil {
		k.end()
	}
	ctx, cancel := context.WithCancel(k.Context())
	p := &process{end: cancel, left: -1, skew: time.Duration(k.rand.IntN(1800)-900) * time.Second}
	dependencies := manager.Dependencies{
		Client: p.client(k.api), Live: p.client(k.api), Events: silent{}, Now: func() time.Time { return time.Now().Add(p.skew) },
	}
	open := func(context.Context, client.Reader, *v1alpha1.BackupRepository) (objstore.Store, error) {
		return fault.New(k.store, fault.Plan{
			Before: func(fault.Call) error { return p.enter() }, After: func(fault.Call) error { return p.leave() },
		}), nil
	}
	locks := &deletionlock.Locks{}
	p.repositories = repository.New(ctx, dependencies, open, &pruning.Pruner{Dependencies: dependencies, Open: open, Deletions: locks})
	p.backups = backup.New(ctx, dependencies, open, locks, queue.New(queue.Limits{All: 1}, dependencies.Now))
	k.process = p
}

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// enter and leave are before and after a call.
func (p *process) enter() error {
	act, err := p.count()
	if act != nil {
		act()
	}
	return err
}

func (p *process) count() (act func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		if p.left--; p.left%7 == 0 {
			act, p.meanwhile = p.meanwhile, nil
		}
	}
	if p.left == 0 && !p.done {
		return nil, errCrash
	}
	return act, nil
}

func (p *process) leave() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 {
		p.done = false // what comes now is not done
		return errCrash
	}
	return nil
}

func (p *process) call(do func() error) error {
	if err := p.enter(); err != nil {
		return err
	}
	return errors.Join(do(), p.leave())
}

// client is the API server as the process calls it.
func (p *process) client(api client.WithWatch) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			return p.call(func() error { return c.Create(ctx, object, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			return p.call(func() error { return c.Delete(ctx, object, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return p.call(func() error { return c.Patch(ctx, object, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return p.call(func() error { return c.SubResource(sub).Patch(ctx, object, patch, opts...) })
		},
	})
}

// work lets the controllers work for a while. They crash in it some of the time.
func (k *kubernetes) work() {
	if k.lost {
		return
	}
	calls, done, meanwhile := 1<<20, false, func() {}
	switch k.rand.IntN(4) {
	case 0:
		calls, done = 1+k.rand.IntN(150), k.rand.IntN(2) == 0
		k.note("%s works, and crashes at call %d", k.name, calls)
	case 1:
		k.restart()
		fallthrough
	default:
		k.note("%s works", k.name)
	}
	if k.rand.IntN(3) == 0 {
		meanwhile = k.neighbourWrites(k)
	}
	k.set(calls, done, meanwhile)
	for range 3 {
		k.pass()
	}
	if k.set(-1, false, nil) <= 0 {
		k.restart()
	}
}

// set says what is left to a process, and returns what was.
func (p *process) set(left int, done bool, meanwhile func()) (before int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.left, p.done, p.meanwhile = p.left, left, done, meanwhile
	return before
}

// pass reconciles each object once, and waits for what that began.
func (k *kubernetes) pass() {
	request := func(object client.Object) ctrl.Request {
		return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
	}
	for _, repo := range k.repos() {
		_, _ = k.repositories.Reconcile(k.Context(), request(&repo))
	}
	for _, b := range k.objects() {
		_, _ = k.backups.Reconcile(k.Context(), request(&b))
	}
	time.Sleep(time.Minute) // of the bubble: what was deleted is forgotten, and errors are old enough to try again
	synctest.Wait()
}

func (k *kubernetes) repos() []v1alpha1.BackupRepository {
	list := &v1alpha1.BackupRepositoryList{}
	k.must(k.api.List(k.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

func (k *kubernetes) objects() []v1alpha1.Backup {
	list := &v1alpha1.BackupList{}
	k.must(k.api.List(k.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

// apply creates the repository, unless it is there.
func (k *kubernetes) apply() {
	if len(k.repos()) > 0 {
		return
	}
	repo := &v1alpha1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Name: "minio", Namespace: namespace}}
	repo.Spec.S3.Bucket = "bucket"
	k.policy = k.somePolicy()
	repo.Spec.Retention = k.policy
	k.must(k.api.Create(k.Context(), repo))
	k.since, k.policySince = time.Now(), time.Now()
	k.note("%s has the repository, with %+v", k.name, k.policy)
}

// changeRepo changes the repository as a person does.
func (k *kubernetes) changeRepo(change func(*v1alpha1.BackupRepository)) {
	for _, repo := range k.repos() {
		change(&repo)
		k.must(k.api.Update(k.Context(), &repo))
	}
}

// sameRules says that two policies keep the same: what is shown before it goes was shown of the former one already.
func sameRules(a, b *v1alpha1.RetentionSpec) bool {
	rules := func(spec *v1alpha1.RetentionSpec) v1alpha1.RetentionSpec {
		only := *spec.DeepCopy()
		only.NoticePeriod, only.DryRun = nil, false
		return only
	}
	return reflect.DeepEqual(rules(a), rules(b))
}

func (k *kubernetes) newPolicy() {
	former := k.policy
	if k.policy = k.somePolicy(); !sameRules(former, k.policy) {
		k.policySince = time.Now()
	}
	k.changeRepo(func(repo *v1alpha1.BackupRepository) { repo.Spec.Retention = k.policy })
	k.note("%s has another policy: %+v", k.name, k.policy)
}

func (k *kubernetes) somePolicy() *v1alpha1.RetentionSpec {
	spec := &v1alpha1.RetentionSpec{}
	if k.rand.IntN(2) == 0 {
		spec.RecoveryWindow = v1alpha1.RetentionPeriod(fmt.Sprintf("%dd", 1+k.rand.IntN(12)))
	}
	if k.rand.IntN(3) == 0 {
		spec.KeepWithin = v1alpha1.RetentionPeriod(fmt.Sprintf("%dd", 1+k.rand.IntN(6)))
	}
	if k.rand.IntN(2) == 0 || spec.RecoveryWindow == "" && spec.KeepWithin == "" {
		last := int32(1 + k.rand.IntN(3))
		spec.KeepLast = &last
	}
	if k.rand.IntN(4) == 0 {
		spec.NoticePeriod = &metav1.Duration{}
	}
	return spec
}

// record makes the object of a backup that a cluster here has.
func (k *kubernetes) record(d *database, id string) {
	object := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{
		Name: d.lineage + "-" + id, Namespace: namespace, Finalizers: []string{"howdah.dev/backup-data"},
	}}
	object.Spec.Cluster.Name = d.name
	k.must(k.api.Create(k.Context(), object))
	now := metav1.Now()
	object.Status.Plan = &v1alpha1.BackupPlan{ID: id, Repository: "minio", Lineage: d.lineage, ClusterUID: types.UID(d.uid)}
	object.Status.CompletedAt = &now
	meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: "Succeeded"})
	k.must(k.api.Status().Update(k.Context(), object))
}

// somebody deletes or holds a Backup, or lets one go.
func (k *kubernetes) somebody() {
	objects := k.objects()
	if len(objects) == 0 {
		return
	}
	b := &objects[k.rand.IntN(len(objects))]
	plan := b.Status.Plan
	if plan == nil || !b.DeletionTimestamp.IsZero() {
		return
	}
	where := plan.Lineage + "/" + plan.ID
	switch {
	case k.rand.IntN(2) == 0:
		b.Spec.Hold = !b.Spec.Hold
		k.must(k.api.Update(k.Context(), b))
		k.held[k.name+where] = b.Spec.Hold
		k.note("hold of %s in %s: %t", where, k.name, b.Spec.Hold)
	default:
		b.Spec.DeletionPolicy = v1alpha1.BackupDelete
		k.must(k.api.Update(k.Context(), b))
		k.must(k.api.Delete(k.Context(), b))
		k.given[where] = k
		k.before = k.restorable(k.store)
		k.note("delete %s in %s", where, k.name)
	}
}

// giveUp writes a sentence of the status into the spec.
func (k *kubernetes) giveUp() {
	for _, repo := range k.repos() {
		for _, l := range repo.Status.Lineages {
			if l.GiveUp != "" && k.rand.IntN(2) == 0 {
				k.changeRepo(func(repo *v1alpha1.BackupRepository) { repo.Spec.Retention.GiveUp = []string{l.GiveUp} })
				k.databases[l.Name].givenUp = true
				k.note("%s gives up: %s", k.name, l.GiveUp)
				return
			}
		}
	}
}
