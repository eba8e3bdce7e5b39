//go:build integration

package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/backup-controller/internal/queue"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/asof"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/repostore"
	"howdah.dev/howdah/pkg/workload"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// stores are the object stores of this process, by bucket. One that isn't there is a server that is away.
type storesByBucket struct {
	mu   sync.Mutex
	have map[string]objstore.Store
}

var buckets = &storesByBucket{have: map[string]objstore.Store{}}

func (s *storesByBucket) set(bucket string, store objstore.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have[bucket] = store
}

func (s *storesByBucket) open(ctx context.Context, reader client.Reader, repo *v1alpha1.BackupRepository) (objstore.Store, error) {
	if name := repostore.SecretName(repo); name != "" {
		if _, err := repostore.Open(ctx, reader, repo); err != nil {
			return nil, err // the Secret is looked at as in earnest
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if store := s.have[repo.Spec.S3.Bucket]; store != nil {
		if at := repostore.PodConfig(repo).AsOf; at != nil {
			store = asof.New(store.(objstore.Versioned), *at)
		}
		return repostore.Sealed(ctx, reader, repo, store)
	}
	return nil, &objstore.Error{Op: "put", Bucket: repo.Spec.S3.Bucket, Code: "ServiceUnavailable", Kind: objstore.ErrUnavailable, Err: errors.New("it is away")}
}

// start starts the controllers once for all tests of the package.
var start = sync.OnceValue(func() error {
	ctrl.SetLogger(zap.New(zap.WriteTo(discard{})))
	mgr, err := ctrl.NewManager(apiserver.Config(), ctrl.Options{
		Scheme: manager.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:  cache.Options{ByObject: cached()},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err == nil {
		err = setup(apiserver.Context(), mgr, manager.NewDependencies(mgr, name, manager.Settings{Agent: workload.Agent{Image: "agent:test"}}), buckets.open, queue.Limits{All: 1000})
	}
	if err != nil {
		return err
	}
	go func() { _ = mgr.Start(apiserver.Context()) }()
	return nil
})

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// bed is one test's namespace, with a bucket of its own.
type bed struct {
	*testing.T
	client.Client
	namespace, bucket string
	store             *mem.Store
	// due is the last time of an hourly schedule: half an hour ago, so that none comes while the test runs.
	due time.Time
}

// newBed makes one for a test that runs beside the others: most of them wait for a controller more than they work.
func newBed(t *testing.T) *bed {
	t.Helper()
	t.Parallel()
	return anotherBed(t)
}

// anotherBed is a second one for a test.
func anotherBed(t *testing.T) *bed {
	t.Helper()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	c := apiserver.Client(t)
	b := &bed{
		T: t, Client: c, namespace: apiserver.Namespace(t, c), store: mem.New(),
		due: time.Now().UTC().Add(-30 * time.Minute).Truncate(time.Minute),
	}
	b.bucket = b.namespace
	buckets.set(b.bucket, b.store)
	apiserver.StandIn(t, b.namespace, b.collectGarbage)
	return b
}

// collectGarbage does what Kubernetes' own controllers do, which this API server doesn't have: it deletes the Jobs of Backups that were
// deleted, and lets deleted Jobs go.
func (b *bed) collectGarbage(ctx context.Context) {
	jobs := &batchv1.JobList{}
	if b.List(ctx, jobs, client.InNamespace(b.namespace)) != nil {
		return
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !job.DeletionTimestamp.IsZero() {
			job.Finalizers = nil
			_ = b.Update(ctx, job)
		} else if b.orphaned(ctx, job) {
			_ = b.Delete(ctx, job, client.Preconditions{UID: &job.UID})
		}
	}
}

// orphaned says whether a Job belongs to a Backup that was deleted.
func (b *bed) orphaned(ctx context.Context, job *batchv1.Job) bool {
	owner := metav1.GetControllerOf(job)
	if owner == nil || owner.Kind != "Backup" {
		return false
	}
	backup := &v1alpha1.Backup{}
	err := b.Get(ctx, client.ObjectKey{Namespace: job.Namespace, Name: owner.Name}, backup)
	return apierrors.IsNotFound(err) || err == nil && backup.UID != owner.UID
}

func (b *bed) make(object client.Object) {
	b.Helper()
	object.SetNamespace(b.namespace)
	if err := b.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// eventually reads the object until it is as wanted.
func (b *bed) eventually(object client.Object, what string, holds func() bool) {
	b.Helper()
	b.eventuallyWithin(time.Minute, object, what, holds)
}

func (b *bed) eventuallyWithin(limit time.Duration, object client.Object, what string, holds func() bool) {
	b.Helper()
	var err error
	if !apiserver.Eventually(b.namespace, limit, func() bool {
		err = b.Get(b.Context(), client.ObjectKeyFromObject(object), object)
		return err == nil && holds()
	}) {
		text, _ := json.MarshalIndent(object, "", " ")
		b.Fatalf("%s: not within %s: %v\n%s", what, limit, err, text)
	}
}

func (b *bed) eventuallyGone(object client.Object) {
	b.Helper()
	var err error
	if !apiserver.Eventually(b.namespace, time.Minute, func() bool {
		err = b.Get(b.Context(), client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err)
	}) {
		text, _ := json.MarshalIndent(object, "", " ")
		b.Fatalf("it is still there: %v\n%s", err, text)
	}
}

func (b *bed) repository(name string) *v1alpha1.BackupRepository {
	repo := &v1alpha1.BackupRepository{}
	repo.Name = name
	repo.Spec.S3.Bucket = b.bucket
	return repo
}

// cluster makes a PostgresCluster, and says in its status what the db-controller would.
func (b *bed) cluster(name string, change ...func(*v1alpha1.PostgresCluster)) *v1alpha1.PostgresCluster {
	b.Helper()
	cluster := &v1alpha1.PostgresCluster{}
	cluster.Name = name
	cluster.Spec = v1alpha1.PostgresClusterSpec{
		Version: 17, Instances: 1, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
		Archive: &v1alpha1.ArchiveSpec{Repository: v1alpha1.LocalReference{Name: "minio"}},
	}
	for _, c := range change {
		c(cluster)
	}
	b.make(cluster)
	b.say(cluster, func(status *v1alpha1.PostgresClusterStatus) {
		status.SystemIdentifier, status.DataGeneration, status.Primary = "7", "g1", name+"-0"
		status.Instances = []v1alpha1.InstanceStatus{{
			Name: name + "-0", Node: "w1", Address: "10.0.0.7", Volume: "data-" + name + "-0", Role: v1alpha1.RolePrimary, Ready: true,
		}}
		status.Connection = &v1alpha1.ConnectionStatus{
			Host: name, Port: 5432, ConfigMap: name + "-connection", AppSecret: name + "-app",
			BackupSecret: name + "-backup", UpgradeSecret: name + "-upgrade",
		}
		status.Image = "postgresql:17"
		setReady(cluster, metav1.ConditionTrue, "It accepts connections.")
	})
	return cluster
}

// archived makes a PostgresCluster and the BackupRepository that it archives to.
func (b *bed) archived(name string) *v1alpha1.PostgresCluster {
	b.Helper()
	b.make(b.repository("minio"))
	return b.cluster(name)
}

func setReady(cluster *v1alpha1.PostgresCluster, status metav1.ConditionStatus, message string) {
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, Reason: "Fake", Message: message, ObservedGeneration: cluster.Generation,
	})
}

// say writes the cluster's status, as the db-controller does.
func (b *bed) say(cluster *v1alpha1.PostgresCluster, change func(*v1alpha1.PostgresClusterStatus)) {
	b.Helper()
	if err := b.Get(b.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		b.Fatal(err)
	}
	change(&cluster.Status)
	cluster.Status.ObservedGeneration = cluster.Generation
	if err := b.Status().Update(b.Context(), cluster); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) backup(name, cluster string) *v1alpha1.Backup {
	b.Helper()
	backup := &v1alpha1.Backup{}
	backup.Name = name
	backup.Spec.Cluster.Name = cluster
	b.make(backup)
	return backup
}

// underWay makes a Backup, and waits until its worker is at it.
func (b *bed) underWay(name, cluster string) (*v1alpha1.Backup, *batchv1.Job) {
	b.Helper()
	backup := b.backup(name, cluster)
	job := b.job(name + "-backup")
	b.awaitReason(backup, metav1.ConditionUnknown, v1alpha1.ReasonRunning)
	return backup, job
}

// awaitReason waits until the backup's condition has the reason.
func (b *bed) awaitReason(backup *v1alpha1.Backup, status metav1.ConditionStatus, reason string) *metav1.Condition {
	b.Helper()
	var condition *metav1.Condition
	b.eventually(backup, "Succeeded "+string(status)+" "+reason, func() bool {
		condition = meta.FindStatusCondition(backup.Status.Conditions, v1alpha1.ConditionSucceeded)
		return condition != nil && condition.Reason == reason && condition.Status == status && backup.Status.ObservedGeneration == backup.Generation
	})
	return condition
}

// job waits for a Job of that name.
func (b *bed) job(name string) *batchv1.Job {
	b.Helper()
	job := &batchv1.Job{}
	job.Name, job.Namespace = name, b.namespace
	b.eventually(job, "Job "+name, func() bool { return job.DeletionTimestamp.IsZero() })
	return job
}

// end ends a Job as Kubernetes does: with a pod whose termination message is the outcome.
func (b *bed) end(job *batchv1.Job, outcome *agentapi.Outcome) {
	b.Helper()
	failed := outcome != nil && outcome.Error != nil
	pod := &corev1.Pod{}
	pod.Name, pod.Labels = job.Name+"-x", job.Spec.Template.Labels
	pod.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "x"}}}
	b.make(pod)
	message := []byte("not an outcome")
	if outcome != nil {
		message, _ = json.Marshal(outcome)
	}
	pod.Status.Phase = corev1.PodSucceeded
	if failed {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "worker", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message)}},
	}}
	if err := b.Status().Update(b.Context(), pod); err != nil {
		b.Fatal(err)
	}
	now := metav1.Now()
	job.Status.StartTime = &now
	conditions := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if failed {
		conditions = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	} else {
		job.Status.CompletionTime = &now
	}
	for _, kind := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, LastProbeTime: now,
		})
	}
	if err := b.Status().Update(b.Context(), job); err != nil {
		b.Fatal(err)
	}
}

func success() *agentapi.Outcome {
	raw, _ := json.Marshal(agentapi.BackupResult{
		Version: "17.5", StartLSN: "0/2000028", StopLSN: "0/2000100", StopTime: time.Now(), LogicalBytes: 100 << 20, StoredBytes: 10 << 20,
	})
	return &agentapi.Outcome{Result: raw}
}

func failure(reason, message string, final bool) *agentapi.Outcome {
	return &agentapi.Outcome{Error: &agentapi.JobError{Reason: reason, Message: message, Final: final}}
}
