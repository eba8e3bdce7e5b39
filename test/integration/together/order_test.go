//go:build integration

// Package together tests the controllers as the processes that they are, all on one API server, while some of them are
// killed. What isn't ours is done in their place: Kubernetes' own controllers, kubelet, workers and agents.
package together

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
	"howdah.dev/howdah/test/testkit/buckettest"
	"howdah.dev/howdah/test/testkit/subset"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

const (
	fewRounds = 5  // where HOWDAH_ORDERS says nothing
	atOnce    = 12 // rounds
	// statesBetween is after how many states of clusters, about, a controller is hurt.
	statesBetween = 60
)

// setting is a number that a person may set.
func setting(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// TestTwoRestoresAndAnUpgradeAtOnceNeverHoldTheClusterTogether has them made in any order for one cluster, many times, while
// controllers die: at no moment two of them have the volume, each of them ends, and who waits says behind whom.
func TestTwoRestoresAndAnUpgradeAtOnceNeverHoldTheClusterTogether(t *testing.T) {
	subset.OneIn(t, 3)
	number, rounds := setting(t, "HOWDAH_SEED", uint64(time.Now().UnixNano())), setting(t, "HOWDAH_ORDERS", fewRounds)
	t.Logf("HOWDAH_SEED=%d", number)
	random := rand.New(rand.NewPCG(number, 0)) // it has to be the same again
	endpoint, k := serveBucket(t), startKube(t)
	states, stopWatching := watchHolders(t)
	stopControllers := runControllers(t, rand.New(rand.NewPCG(number, 1)), states, statesBetween) // as above
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	var places []*place
	for range rounds {
		slots <- struct{}{}
		own := rand.New(rand.NewPCG(number, random.Uint64())) // as above
		p := k.newPlace(own)
		places = append(places, p)
		all.Go(func() {
			k.round(p, own, endpoint)
			<-slots
		})
	}
	all.Wait()
	stopControllers()
	stopWatching()
	shown := 0
	for _, p := range places {
		shown += p.shown
	}
	t.Logf("%d rounds; %d times somebody worked while others said that they wait for it; they ended with %v", len(places), shown, k.ends)
	if shown < len(places)/2 {
		t.Errorf("only %d times somebody waited for another: nothing was tried", shown)
	}
}

func (k *kube) newPlace(random *rand.Rand) *place {
	p := &place{
		T: k.T, ns: apiserver.Namespace(k.T, k), volume: map[string]string{}, writers: map[string]bool{}, gated: map[string]time.Time{},
		fates: map[string]*fate{"a": randomFate(random), "b": randomFate(random), "up": randomFate(random)},
	}
	k.add(p)
	return p
}

// round makes a cluster and all that asks for it, and waits until each has ended.
func (k *kube) round(p *place, random *rand.Rand, endpoint string) {
	ctx := context.Background()
	k.makeSource(ctx, p, endpoint)
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: p.meta(clusterName), Spec: v1alpha1.PostgresClusterSpec{
		Version: 17, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
	}}
	k.create(ctx, cluster)
	if random.IntN(3) > 0 {
		k.await(p, "the cluster runs", func() bool {
			return k.Get(ctx, client.ObjectKeyFromObject(cluster), cluster) == nil && meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady)
		})
	}
	asks := []client.Object{p.restore("a"), p.restore("b"), p.upgrade("up")}
	var all sync.WaitGroup
	for _, ask := range asks {
		pause := time.Duration(random.IntN(100)) * time.Millisecond
		all.Go(func() {
			time.Sleep(pause)
			k.create(ctx, ask)
		})
	}
	all.Wait()
	if k.await(p, "all end", func() bool { return k.ended(ctx, p) }) {
		k.judge(ctx, p, cluster)
		k.clear(ctx, p, append(asks, cluster))
	}
}

// clear deletes what a round has made, so that a controller that begins again has no more to look at than in the first one.
func (k *kube) clear(ctx context.Context, p *place, objects []client.Object) {
	for _, object := range objects {
		k.must(client.IgnoreNotFound(k.Delete(ctx, object)))
	}
	k.await(p, "all is gone", func() bool {
		for _, object := range objects {
			if !apierrors.IsNotFound(k.Get(ctx, client.ObjectKeyFromObject(object), object)) {
				return false
			}
		}
		return true
	})
}

func (p *place) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.ns, Name: name}
}

func (p *place) restore(name string) *v1alpha1.Restore {
	restore := &v1alpha1.Restore{ObjectMeta: p.meta(name), Spec: v1alpha1.RestoreSpec{
		Source:      v1alpha1.RestoreSource{Backup: &v1alpha1.LocalReference{Name: "base"}},
		Destination: v1alpha1.RestoreDestination{InPlace: &v1alpha1.InPlace{Name: clusterName}},
	}}
	restore.Spec.ConfirmWithin = p.confirmWithin(name)
	return restore
}

func (p *place) upgrade(name string) *v1alpha1.Upgrade {
	return &v1alpha1.Upgrade{ObjectMeta: p.meta(name), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: clusterName}, Version: 18, ConfirmWithin: p.confirmWithin(name),
	}}
}

// confirmWithin is soon over where nobody decides.
func (p *place) confirmWithin(name string) *metav1.Duration {
	if p.fates[name].decision == "" {
		return &metav1.Duration{Duration: time.Second}
	}
	return nil
}

// makeSource makes what the backup-controller would have made: it is not among those that are tested.
func (k *kube) makeSource(ctx context.Context, p *place, endpoint string) {
	k.create(ctx, &corev1.Secret{ObjectMeta: p.meta("s3"), StringData: map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}})
	repository := &v1alpha1.BackupRepository{ObjectMeta: p.meta("repo"), Spec: v1alpha1.BackupRepositorySpec{
		S3: v1alpha1.S3Spec{Bucket: bucketName, Endpoint: endpoint, Insecure: true, Credentials: &v1alpha1.S3Credentials{SecretName: "s3"}},
	}}
	k.create(ctx, repository)
	repository.Status.ObservedGeneration = repository.Generation
	meta.SetStatusCondition(&repository.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAvailable})
	k.must(k.Status().Update(ctx, repository))
	backup := &v1alpha1.Backup{ObjectMeta: p.meta("base"), Spec: v1alpha1.BackupSpec{Cluster: v1alpha1.LocalReference{Name: clusterName}}}
	k.create(ctx, backup)
	backup.Status.ObservedGeneration = backup.Generation
	backup.Status.Plan = &v1alpha1.BackupPlan{ID: "b", Repository: "repo", Lineage: buckettest.Lineage, ClusterUID: "u"}
	meta.SetStatusCondition(&backup.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCompleted})
	k.must(k.Status().Update(ctx, backup))
}

func (k *kube) create(ctx context.Context, o client.Object) { k.must(k.Create(ctx, o)) }

func (k *kube) must(err error) {
	k.Helper()
	if err != nil {
		k.Error(err)
	}
}

func (k *kube) await(p *place, what string, holds func() bool) bool {
	if !apiserver.Eventually(p.ns, patience, holds) {
		k.Errorf("%s: not within %s: %s\n%s", p.ns, patience, what, k.picture(p))
		return false
	}
	return true
}

// picture is for who has to find out why it failed.
func (k *kube) picture(p *place) string {
	s, cluster, text := &sight{}, &v1alpha1.PostgresCluster{}, ""
	_ = k.List(context.Background(), &s.restores, client.InNamespace(p.ns))
	_ = k.List(context.Background(), &s.upgrades, client.InNamespace(p.ns))
	_ = k.Get(context.Background(), client.ObjectKey{Namespace: p.ns, Name: clusterName}, cluster)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range s.requesters() {
		text += fmt.Sprintf("%s %s: %s; fate: %+v\n", kindOf(a.Object), a.GetName(), told(a.said), *p.fates[a.GetName()])
	}
	return text + fmt.Sprintf("cluster: %s; holds: %+v; runs on %s of %v",
		told(meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionReady)), cluster.Status.VolumeLocks, cluster.Status.DataGeneration, p.volume)
}

// ended: each has ended, or is gone where it was deleted, and the cluster runs.
func (k *kube) ended(ctx context.Context, p *place) bool {
	s, cluster := &sight{}, &v1alpha1.PostgresCluster{}
	if k.List(ctx, &s.restores, client.InNamespace(p.ns)) != nil || k.List(ctx, &s.upgrades, client.InNamespace(p.ns)) != nil ||
		k.Get(ctx, client.ObjectKey{Namespace: p.ns, Name: clusterName}, cluster) != nil {
		return false
	}
	there := map[string]bool{}
	for _, a := range s.requesters() {
		there[a.GetName()] = true
		if !a.ended || !a.GetDeletionTimestamp().IsZero() {
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, f := range p.fates {
		if !there[name] && !f.deleted {
			return false // the cache doesn't show it yet
		}
	}
	return len(cluster.Status.VolumeLocks) == 0 && cluster.Status.ObservedGeneration == cluster.Generation &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ConditionReady)
}

// judge says whether the cluster runs on what somebody wanted who ended well, or on what it began with.
func (k *kube) judge(ctx context.Context, p *place, cluster *v1alpha1.PostgresCluster) {
	s := &sight{}
	k.must(k.List(ctx, &s.restores, client.InNamespace(p.ns)))
	k.must(k.List(ctx, &s.upgrades, client.InNamespace(p.ns)))
	k.must(k.Get(ctx, client.ObjectKeyFromObject(cluster), cluster))
	wanted, well := map[string]bool{}, false
	for name, f := range p.fates {
		if f.deleted { // it may have done its work before
			wanted["restored by "+name], wanted["upgraded by "+name] = true, true
		}
	}
	for _, a := range s.requesters() {
		k.count(kindOf(a.Object) + " " + a.said.Reason)
		if a.said.Status == metav1.ConditionTrue {
			well = true
			wanted["restored by "+a.GetName()], wanted["upgraded by "+a.GetName()] = true, true
		}
	}
	wanted["first"] = !well
	p.mu.Lock()
	runs := p.volume[cluster.Status.DataGeneration]
	p.mu.Unlock()
	if !wanted[runs] {
		k.Errorf("%s: it runs on what is %q\n%s", p.ns, runs, k.picture(p))
	}
}
