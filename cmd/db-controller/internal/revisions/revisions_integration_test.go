//go:build integration

package revisions

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/manager"
	"howdah.dev/howdah/pkg/spechistory"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// lab is one cluster, whose status the test writes.
type lab struct {
	*testing.T
	client.Client
	shop *v1alpha1.PostgresCluster
}

func newLab(t *testing.T) *lab {
	t.Helper()
	c := apiserver.Client(t)
	l := &lab{T: t, Client: c, shop: &v1alpha1.PostgresCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace(t, c), Name: "shop"},
		Spec:       v1alpha1.PostgresClusterSpec{Version: 17, Instances: 3, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")}},
	}}
	l.must(c.Create(t.Context(), l.shop))
	apiserver.Run(t, l.shop.Namespace, func(_ context.Context, mgr ctrl.Manager) error {
		return manager.Register(mgr, &Reconciler{Client: mgr.GetClient()})
	}, func(_ *rest.Config, options *ctrl.Options) { options.Cache.ByObject = CacheOptions() })
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// scale changes the spec. The status still speaks of the previous one.
func (l *lab) scale(instances int32) {
	l.Helper()
	before := l.shop.DeepCopy()
	l.shop.Spec.Instances = instances
	l.must(l.Patch(l.Context(), l.shop, client.MergeFrom(before)))
}

// settle has the status say that the spec is in effect, or that the cluster isn't Ready with it.
func (l *lab) settle(ready metav1.ConditionStatus) {
	l.Helper()
	before := l.shop.DeepCopy()
	l.shop.Status.ObservedGeneration = l.shop.Generation
	flow.SetCondition(&l.shop.Status.Conditions, l.shop, v1alpha1.ConditionReady, ready, "Test", "")
	flow.SetCondition(&l.shop.Status.Conditions, l.shop, v1alpha1.ConditionUpToDate, metav1.ConditionTrue, "Test", "")
	l.must(l.Status().Patch(l.Context(), l.shop, client.MergeFrom(before)))
}

// kept waits until these numbers of instances are kept, the newest first.
func (l *lab) kept(want ...int32) {
	l.Helper()
	var got []int32
	err := wait.PollUntilContextTimeout(l.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		all := &appsv1.ControllerRevisionList{}
		if err := l.List(ctx, all, client.InNamespace(l.shop.Namespace), client.MatchingLabels(spechistory.Labels("shop"))); err != nil {
			return false, err
		}
		got = nil
		for _, revision := range spechistory.Sorted(all.Items) {
			spec, err := spechistory.Spec(&revision)
			if err != nil || !metav1.IsControlledBy(&revision, l.shop) {
				return false, fmt.Errorf("%+v: %w", revision, err)
			}
			got = append(got, spec.Instances)
		}
		return slices.Equal(got, want), nil
	})
	if err != nil {
		l.Fatalf("%v are kept, and not %v: %v", got, want, err)
	}
}

func TestTheSpecsWithWhichAClusterWasReadyAreKept(t *testing.T) {
	l := newLab(t)
	l.settle(metav1.ConditionTrue)
	l.kept(3)
	l.scale(4)
	l.settle(metav1.ConditionFalse) // it never becomes Ready with that
	l.scale(5)
	l.settle(metav1.ConditionTrue)
	l.kept(5, 3)
	l.scale(3)
	l.settle(metav1.ConditionTrue)
	l.kept(3, 5)
	want := []int32{3}
	for n := range int32(2) {
		l.scale(n + 1)
		l.settle(metav1.ConditionTrue)
		want = append([]int32{n + 1}, want...)
		l.kept(append(slices.Clone(want), 5)...)
	}
}

// A spec that is on its way is not kept, although the conditions of the previous one are True.
func TestASpecThatIsNotInEffectYetIsNotKept(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionUpToDate} {
		cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: 1})
	}
	cluster.Status.ObservedGeneration = 1
	if steady(cluster) {
		t.Error("the spec is not in effect")
	}
}
