//go:build integration

package restore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/protocol"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/buckettest"
	"howdah.dev/howdah/test/testkit/jobs"
	"howdah.dev/howdah/test/testkit/mortal"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// lab is one namespace with a restore-controller, a bucket, and a stand-in for the other controllers and the Job.
type lab struct {
	*testing.T
	client.Client
	ns    string
	store objstore.Store
	// patience is how long something may take.
	patience time.Duration

	mu      sync.Mutex
	outcome *agentapi.Outcome                                                     // of the Job; nil: it runs on
	each    func(job *batchv1.Job, restores []v1alpha1.Restore) *agentapi.Outcome // of each Job, where they differ
	refuses string                                                                // data generation that the cluster doesn't start on
	stop    func()

	// process: the controller dies with its first write; nil: it doesn't.
	process *mortal.Process
	// ahead is how far the controller's clock is before the real one.
	ahead atomic.Int64
}

func newLab(t *testing.T, change ...func(*v1alpha1.BackupRepositorySpec)) *lab {
	t.Helper()
	t.Parallel()
	c := apiserver.Client(t)
	l := &lab{T: t, Client: c, ns: apiserver.Namespace(t, c), store: buckettest.New(t, 4, 5, 6), patience: time.Minute}
	apiserver.StandIn(t, l.ns, l.standIn)
	l.startController()
	repo := &v1alpha1.BackupRepository{
		ObjectMeta: l.meta("repo"),
		Spec:       v1alpha1.BackupRepositorySpec{S3: v1alpha1.S3Spec{Bucket: "bucket", Credentials: &v1alpha1.S3Credentials{SecretName: "s3"}}},
	}
	for _, do := range change {
		do(&repo.Spec)
	}
	l.createWithStatus(repo, func(o client.Object) {
		status := &o.(*v1alpha1.BackupRepository).Status
		status.ObservedGeneration = 1
		status.Conditions = conditions(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
	})
	l.createWithStatus(&v1alpha1.Backup{
		ObjectMeta: l.meta("base"), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}},
	}, func(o client.Object) {
		status := &o.(*v1alpha1.Backup).Status
		status.ObservedGeneration = 1
		status.Conditions = conditions(v1alpha1.ConditionSucceeded, metav1.ConditionTrue, v1alpha1.ReasonCompleted)
		status.Plan = &v1alpha1.BackupPlan{ID: "b", Repository: "repo", Lineage: buckettest.Lineage, ClusterUID: "u"}
	})
	return l
}

func conditions(kind string, status metav1.ConditionStatus, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}}
}

func (l *lab) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.ns, Name: name}
}

// startController starts a restore-controller that looks at this namespace alone.
func (l *lab) startController() {
	l.Helper()
	l.stop = apiserver.Run(l.T, l.ns, func(ctx context.Context, mgr ctrl.Manager) error {
		reconciler := New(ctx, manager.NewDependencies(mgr, "restore-controller", manager.Settings{Agent: workload.Agent{Image: "agent:1"}, Images: manager.Images{17: "postgres:17"}}), repostore.Open)
		reconciler.Open = func(_ context.Context, _ client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
			if at := repostore.PodConfig(repo).AsOf; at != nil {
				return asof.New(l.store.(objstore.Versioned), *at), nil
			}
			return l.store, nil
		}
		reconciler.Now = func() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) }
		if l.process != nil {
			reconciler.Client = l.process.Wrap(reconciler.Client)
		}
		return reconciler.SetupWithManager(mgr)
	})
}

// restartController is a crash: what was in memory is gone.
func (l *lab) restartController() {
	l.Helper()
	l.stop()
	l.startController()
}

// dieAtEachWrite lets one controller after the other live for one write, until the function that it returns is called; that
// returns what they wrote.
func (l *lab) dieAtEachWrite(behind mortal.Behind) (stop func() []string) {
	l.Helper()
	l.stop()
	return mortal.Run(l.T, l.Client, &v1alpha1.Restore{}, behind, func(process *mortal.Process) func() {
		l.process = process
		l.startController()
		return l.stop
	})
}

// jobEnds lets every Job end like that from now on.
func (l *lab) jobEnds(outcome agentapi.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcome = &outcome
}

// standIn does what the db-controller, the Job controller and the agent would do now. What fails is tried again.
func (l *lab) standIn(ctx context.Context) {
	l.mu.Lock()
	outcome, each := l.outcome, l.each // ahead of the Jobs: what was deleted before it was set is not among them
	l.mu.Unlock()
	clusters, restores, all := &v1alpha1.PostgresClusterList{}, &v1alpha1.RestoreList{}, &batchv1.JobList{}
	for _, list := range []client.ObjectList{clusters, restores, all} {
		if l.List(ctx, list, client.InNamespace(l.ns)) != nil {
			return
		}
	}
	for i := range clusters.Items {
		l.asDBController(ctx, &clusters.Items[i], restores.Items)
	}
	for i := range all.Items {
		if each != nil {
			outcome = each(&all.Items[i], restores.Items)
		}
		jobs.Run(ctx, l, &all.Items[i], outcome)
	}
	l.asGarbageCollector(ctx, clusters.Items, restores.Items)
}

// asGarbageCollector deletes clusters whose Restore no longer exists.
func (l *lab) asGarbageCollector(ctx context.Context, clusters []v1alpha1.PostgresCluster, restores []v1alpha1.Restore) {
	for i := range clusters {
		owner := metav1.GetControllerOf(&clusters[i])
		if owner != nil && !slices.ContainsFunc(restores, func(r v1alpha1.Restore) bool { return r.UID == owner.UID }) {
			_ = l.Delete(ctx, &clusters[i])
		}
	}
}

func (l *lab) asDBController(ctx context.Context, cluster *v1alpha1.PostgresCluster, restores []v1alpha1.Restore) {
	status := &cluster.Status
	before := cluster.DeepCopy()
	status.ObservedGeneration = cluster.Generation
	if status.DataGeneration == "" && cluster.Spec.Bootstrap != nil {
		status.DataGeneration = protocol.DataGeneration(cluster.UID, 0)
	}
	if cluster.Spec.SuperuserAccess {
		status.Connection = &v1alpha1.ConnectionStatus{Host: cluster.Name + "-rw", SuperuserSecret: cluster.Name + "-superuser"}
	}
	asks := protocol.LockRequests(cluster, restores, nil)
	status.ReleasedDataGenerations = protocol.Release(cluster, protocol.ReleaseRequests(cluster, restores, nil), asks, protocol.Writers(cluster, restores, nil))
	status.VolumeLocks = protocol.VolumeLocks(status.VolumeLocks, asks, protocol.LockFacts{
		Stopped: true, Archived: true, Now: time.Now(), Volumes: []v1alpha1.LockedVolume{{Instance: cluster.Name + "-0", ClaimName: "data-" + cluster.Name + "-0"}},
	})
	if ask := protocol.PendingHandover(status.VolumeLocks, asks); ask != nil {
		status.VolumeLocks = protocol.Adopt(status.VolumeLocks, ask)
		status.DataGeneration = ask.Handover.DataGeneration
		l.mu.Lock()
		ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRunning}
		if status.DataGeneration == l.refuses {
			ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonStarting
		}
		l.mu.Unlock()
		meta.SetStatusCondition(&status.Conditions, ready)
		if ready.Status == metav1.ConditionTrue {
			status.VolumeLocks = protocol.Serve(status.VolumeLocks, status.DataGeneration, metav1.Now())
		}
	}
	_ = l.Status().Patch(ctx, cluster, client.MergeFrom(before))
}

func (l *lab) createWithStatus(object client.Object, set func(client.Object)) {
	l.Helper()
	if err := l.Create(context.Background(), object); err != nil {
		l.Fatal(err)
	}
	before := object.DeepCopyObject().(client.Object)
	set(object)
	if err := l.Status().Patch(context.Background(), object, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
}

// restore makes a Restore of the Backup base into the cluster copy.
func (l *lab) restore(change func(*v1alpha1.RestoreSpec)) *v1alpha1.Restore {
	l.Helper()
	restore := &v1alpha1.Restore{ObjectMeta: l.meta("r"), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}},
		Destination: v1alpha1.RestoreDestination{NewCluster: &v1alpha1.NewCluster{Name: "copy"}},
	}}
	if change != nil {
		change(&restore.Spec)
	}
	if err := l.Create(context.Background(), restore); err != nil {
		l.Fatal(err)
	}
	return restore
}

// await waits until the restore says that.
func (l *lab) await(restore *v1alpha1.Restore, status metav1.ConditionStatus, reason string) string {
	l.Helper()
	message := ""
	l.eventually(string(status)+" "+reason, func() bool {
		if err := l.Get(context.Background(), client.ObjectKeyFromObject(restore), restore); err != nil {
			l.Fatal(err)
		}
		c := meta.FindStatusCondition(restore.Status.Conditions, v1alpha1.ConditionSucceeded)
		if c == nil {
			return false
		}
		message = c.Reason + ": " + c.Message
		return c.Status == status && c.Reason == reason
	}, &message)
	return message
}

func (l *lab) eventually(what string, holds func() bool, now *string) {
	l.Helper()
	if !apiserver.Eventually(l.ns, l.patience, holds) {
		l.Fatalf("not within %s: %s; now: %s", l.patience, what, *now)
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
