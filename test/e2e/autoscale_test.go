//go:build e2e

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/place"
)

// busy keeps sessions of an instance busy until the function that it returns is called.
func (b *bed) busy(instance string, sessions int) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for range sessions {
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = b.SQLOn(instance, "SET statement_timeout = '10s'; SELECT count(*) FROM generate_series(1, 1000000000)")
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func TestReplicasFollowTheirLoad(t *testing.T) {
	onlyInFull(t, "a load has to be measured for minutes; the db-controller's tests have agents say of it")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	cluster.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	cluster.Spec.Autoscale = &v1alpha1.Autoscale{Replicas: &v1alpha1.AutoscaleReplicas{Mode: v1alpha1.AutoscaleApply, Min: 1, Max: 2, CPUPercent: ptr.To[int32](60)}}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	w := b.startWriter("shop")
	stop := b.busy("shop-1", 1)
	defer stop()
	const measured = 15 * time.Minute
	b.AwaitFor(measured, cluster, "a replica more", func() bool {
		applied := cluster.Status.AppliedReplicas()
		return applied != nil && applied.Instances == 3 && strings.Contains(applied.Reason, "of their CPU (target 60 %)")
	})
	b.awaitInstances(cluster, 3)
	if cluster.Spec.Instances != 2 {
		t.Errorf("spec was changed: %d instances", cluster.Spec.Instances)
	}
	b.awaitEvent(cluster, "The number of instances changes from 2 to 3.")
	stop()
	b.Merge(cluster, `{"spec":{"autoscale":null}}`)
	b.awaitInstances(cluster, 2)
	w.judge()
}

// TestAHorizontalPodAutoscalerAddsAndRemovesReplicas has Kubernetes' own controller scale by what metrics-server has measured. The primary is
// the instance with the highest number when one is removed.
func TestAHorizontalPodAutoscalerAddsAndRemovesReplicas(t *testing.T) {
	onlyInFull(t, "a load has to be measured for minutes")
	t.Parallel()
	place.NeedKube(t)
	b := newBed(t, "minio")
	b.Kube("metrics-server")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Instances = 2
	cluster.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
	b.Must(b.Create(t.Context(), cluster))
	b.awaitInstances(cluster, 2)
	w := b.startWriter("shop")
	stop := b.busy("shop-1", 2)
	defer stop()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: b.Meta("shop"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PostgresCluster", Name: "shop"},
		MinReplicas:    ptr.To[int32](2), MaxReplicas: 3,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](100)},
		}}},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](30)}},
	}}
	b.Must(b.Create(t.Context(), hpa))
	b.awaitInstances(cluster, 3)
	if cluster.Spec.Instances != 3 {
		t.Errorf("spec.instances is %d", cluster.Spec.Instances)
	}
	b.Merge(cluster, `{"spec":{"switchover":{"token":"up","to":"shop-2"}}}`)
	b.Await(cluster, "shop-2 to be the primary", func() bool { return cluster.Status.Primary == "shop-2" })
	stop()
	b.awaitInstances(cluster, 2)
	if cluster.Status.Primary == "shop-2" {
		t.Error("the primary is gone")
	}
	w.judge()
}

// awaitEvent waits for an event of an object with this text.
func (b *bed) awaitEvent(cluster *v1alpha1.PostgresCluster, text string) {
	b.Helper()
	b.Await(cluster, "an event that says: "+text, func() bool {
		events := &corev1.EventList{}
		b.Must(b.List(b.Context(), events, client.InNamespace(b.Namespace)))
		for i := range events.Items {
			if events.Items[i].InvolvedObject.Name == cluster.Name && strings.Contains(events.Items[i].Message, text) {
				return true
			}
		}
		return false
	})
}

func TestRequestsFollowTheLoad(t *testing.T) {
	onlyInFull(t, "a load has to be measured for 20 minutes; the db-controller's tests have agents say of it")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}
	cluster.Spec.Autoscale = &v1alpha1.Autoscale{Resources: &v1alpha1.AutoscaleResources{
		Mode: v1alpha1.AutoscaleApply, CPU: &v1alpha1.ResourceBounds{Min: resource.MustParse("50m"), Max: resource.MustParse("150m")},
	}}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	w, pod := b.startWriter("shop"), b.Pod("shop-0")
	stop := b.busy("shop-0", 1)
	defer stop()
	const measured = 35 * time.Minute
	b.AwaitFor(measured, cluster, "a larger request", func() bool { return cluster.Status.AppliedRequests() != nil })
	b.Await(cluster, "the running pod to have it", func() bool {
		now := b.Pod("shop-0")
		return now.UID == pod.UID && now.Status.ContainerStatuses[0].RestartCount == 0 && now.Spec.Containers[0].Resources.Requests.Cpu().String() == "150m"
	})
	stop()
	b.Merge(cluster, `{"spec":{"autoscale":null}}`)
	b.Await(cluster, "the running pod to have that of spec", func() bool {
		now := b.Pod("shop-0")
		return now.UID == pod.UID && now.Spec.Containers[0].Resources.Requests.Cpu().String() == "50m" && cluster.Status.AppliedRequests() == nil
	})
	w.judge()
}

// finds says whether the status has a finding.
func finds(cluster *v1alpha1.PostgresCluster, reason string) bool {
	for i := range cluster.Status.Findings {
		if cluster.Status.Findings[i].Reason == reason {
			return true
		}
	}
	return false
}

func TestADamagedIndexIsFoundUnlessTheChecksAreSuspended(t *testing.T) {
	onlyInFull(t, "an agent checks every ten minutes; its own tests have it check all the time")
	t.Parallel()
	b := newBed(t, "minio")
	cluster := b.NewCluster("shop", 17)
	cluster.Spec.DeepChecks = &v1alpha1.DeepChecks{Suspend: true}
	b.Must(b.Create(t.Context(), cluster))
	b.AwaitTrue(cluster, v1alpha1.ConditionReady)
	b.Await(cluster, "it to be said that nobody checks", func() bool { return finds(cluster, v1alpha1.ReasonChecksSuspended) })
	// The order of an index that the catalog has wrong is what a damaged index looks like. It lies in the first database that is checked.
	damage := "CREATE TABLE public.t AS SELECT generate_series(1, 1000) AS n; CREATE INDEX t_n ON public.t (n); UPDATE pg_index SET indoption = '1' WHERE indexrelid = 'public.t_n'::regclass"
	if out, err := b.Exec("shop-0", "psql", "-X", "-q", "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-c", damage); err != nil {
		t.Fatal(err, out)
	}
	b.Merge(cluster, `{"spec":{"deepChecks":{"suspend":false,"indexTimeout":"1m"}}}`)
	b.Await(cluster, "it to be said no more", func() bool { return !finds(cluster, v1alpha1.ReasonChecksSuspended) })
	const turns = 35 * time.Minute // at most two of them
	b.AwaitFor(turns, cluster, "the damage to be found", func() bool { return finds(cluster, v1alpha1.ReasonIndexDamaged) })
	for i := range cluster.Status.Findings {
		if f := &cluster.Status.Findings[i]; f.Reason == v1alpha1.ReasonIndexDamaged && !strings.Contains(f.Evidence, "index public.t_n in database postgres") {
			t.Error(f.Evidence)
		}
	}
}
