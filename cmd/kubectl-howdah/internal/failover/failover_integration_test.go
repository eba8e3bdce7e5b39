//go:build integration

package failover

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// broken is a cluster of three without a primary: shop-0 was it last, and its pod is gone.
type broken struct {
	*testing.T
	client.Client
	key client.ObjectKey
}

const before = `{"generation":"g1","timeline":4,"lastHolder":"shop-0","quorum":1,"checkpoint":{"timeline":4,"lsn":900},` +
	`"members":[{"name":"shop-1","replayed":{"timeline":4,"lsn":500}},{"name":"shop-2","replayed":{"timeline":4,"lsn":800}}]}`

func newBroken(t *testing.T) *broken {
	t.Helper()
	c := apiserver.Client(t)
	b := &broken{T: t, Client: c, key: client.ObjectKey{Namespace: apiserver.Namespace(t, c), Name: "shop"}}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: b.key.Namespace, Name: name} }
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: named("shop"), Spec: v1alpha1.PostgresClusterSpec{
		Version: 17, Instances: 3, Storage: v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
	}}
	b.create(cluster)
	cluster.Status.Primary = "shop-0"
	for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
		cluster.Status.Instances = append(cluster.Status.Instances, v1alpha1.InstanceStatus{Name: name, Timeline: 4})
	}
	if err := c.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop-1", "shop-2"} {
		pod := &corev1.Pod{ObjectMeta: named(name), Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "postgres", Image: "postgres"}}}}
		b.create(pod)
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := c.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	lease := &coordinationv1.Lease{ObjectMeta: named("shop"), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("shop-0"), LeaseDurationSeconds: ptr.To[int32](1), LeaseTransitions: ptr.To[int32](7),
	}}
	lease.Annotations = map[string]string{annotation: before}
	b.create(lease)
	return b
}

func (b *broken) create(object client.Object) {
	b.Helper()
	if err := b.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

func (b *broken) lease() *coordinationv1.Lease {
	b.Helper()
	lease := &coordinationv1.Lease{}
	if err := b.Get(b.Context(), b.key, lease); err != nil {
		b.Fatal(err)
	}
	return lease
}

// agent stands in for the one that takes the lease once it was decided.
func (b *broken) agent(name string) {
	go func() {
		_ = wait.PollUntilContextTimeout(b.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			lease := &coordinationv1.Lease{}
			if b.Get(ctx, b.key, lease) != nil || !strings.Contains(lease.Annotations[annotation], `"lastHolder":"`+name+`"`) {
				return false, nil
			}
			lease.Spec.HolderIdentity = &name
			return b.Update(ctx, lease) == nil, nil
		})
	}()
}

func (b *broken) carry(request Request, typed string) (string, error) {
	out := &strings.Builder{}
	request.In, request.Out = strings.NewReader(typed), out
	if request.Timeout == 0 {
		request.Timeout = 20 * time.Second
	}
	err := request.Carry(b.Context(), b.Client, b.key)
	return out.String(), err
}

func TestAPersonIsToldWhatWouldBeLostAndDecides(t *testing.T) {
	b := newBroken(t)
	b.agent("shop-2")
	out, err := b.carry(Request{}, "shop-0\nshop-2\n")
	if err != nil {
		t.Fatal(err, out)
	}
	for _, part := range []string{"0/320 on timeline 4", "First power off its node", "each is on shop-0 and on at least 1 of the members (shop-1, shop-2)", "shop-2 has taken the lease"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
	lease := b.lease()
	if known := lease.Annotations[annotation]; known != `{"generation":"g1","timeline":5,"lastHolder":"shop-2","members":[]}` || *lease.Spec.LeaseTransitions != 8 {
		t.Errorf("%s, %d", known, *lease.Spec.LeaseTransitions)
	}
}

func TestNothingIsChangedWithoutAnAnswer(t *testing.T) {
	b := newBroken(t)
	for name, c := range map[string]struct {
		request Request
		typed   string
		want    string
	}{
		"it isn't known to be off":  {Request{Yes: true}, "", "power off its node, and then add --powered-off shop-0"},
		"another one is off":        {Request{PoweredOff: "shop-1", Yes: true}, "", "add --powered-off shop-0"},
		"it is not confirmed":       {Request{PoweredOff: "shop-0"}, "yes\n", "nothing was changed"},
		"there is no such instance": {Request{To: "shop-7", Yes: true}, "", "there is no instance shop-7: write one of shop-0, shop-1, shop-2"},
		"its pod doesn't run":       {Request{To: "shop-0", Yes: true}, "", "pod shop-0 doesn't run"},
	} {
		if _, err := b.carry(c.request, c.typed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if known := b.lease().Annotations[annotation]; known != before {
		t.Error(known)
	}
}

// A holder that is alive renews the lease while the person decides.
func TestAPrimaryThatRenewsIsNotReplaced(t *testing.T) {
	b := newBroken(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = wait.PollUntilContextCancel(ctx, 300*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			lease := &coordinationv1.Lease{}
			if b.Get(ctx, b.key, lease) == nil {
				lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
				_ = b.Update(ctx, lease)
			}
			return false, nil
		})
	}()
	_, err := b.carry(Request{PoweredOff: "shop-0", Yes: true}, "")
	if err == nil || !strings.Contains(err.Error(), "the Lease was written meanwhile") {
		t.Errorf("got %v", err)
	}
	if known := b.lease().Annotations[annotation]; known != before {
		t.Error(known)
	}
}

func TestWhoContinuesAfterTheLeaseWasDeletedIsForAPersonToSay(t *testing.T) {
	b := newBroken(t)
	if err := b.Delete(t.Context(), b.lease()); err != nil {
		t.Fatal(err)
	}
	b.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: b.key.Namespace, Name: "shop"}})
	if out, err := b.carry(Request{}, ""); err == nil || !strings.Contains(err.Error(), "doesn't say who was primary last") {
		t.Fatal(err, out)
	}
	cluster := &v1alpha1.PostgresCluster{}
	if err := b.Get(t.Context(), b.key, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Status.DataGeneration = "g1"
	if err := b.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if out, err := b.carry(Request{Yes: true, PoweredOff: "shop-0"}, ""); err == nil || !strings.Contains(err.Error(), "pg_last_wal_receive_lsn") || !strings.Contains(out, "The Lease was deleted") {
		t.Fatal(err, out)
	}
	b.agent("shop-2")
	out, err := b.carry(Request{To: "shop-2", Yes: true, PoweredOff: "shop-0"}, "")
	if err != nil || !strings.Contains(out, "may be lost: for which instances") || !strings.Contains(out, "shop-2 has taken the lease") {
		t.Fatal(err, out)
	}
	if known := b.lease().Annotations[annotation]; known != `{"generation":"g1","timeline":5,"lastHolder":"shop-2","members":[]}` {
		t.Error(known)
	}
}

// An instance that was chosen and never takes the lease has changed nothing of what is known.
func TestAFailoverThatWasNotCarriedOutIsForgotten(t *testing.T) {
	b := newBroken(t)
	for _, name := range []string{"shop-2", "shop-1", "shop-2"} { // nobody takes the lease
		out, err := b.carry(Request{To: name, Yes: true, PoweredOff: "shop-0", Timeout: time.Second}, "")
		if err == nil || !strings.Contains(err.Error(), name+" has not taken the lease within 1s") {
			t.Fatal(err, out)
		}
		if !strings.Contains(out, "on shop-0 and on at least 1 of the members (shop-1, shop-2)") || strings.Contains(out, "Nothing is lost") {
			t.Errorf("what is lost isn't said:\n%s", out)
		}
	}
	if _, err := b.carry(Request{To: "shop-1", Yes: true}, ""); err == nil || !strings.Contains(err.Error(), "--powered-off shop-0") {
		t.Errorf("it isn't asked whether the last primary is off: %v", err)
	}
}

// What the table says is what the Lease said before the decision, until somebody has led since.
func TestOnlyWhoHasLedSinceAFailoverHasEveryCommit(t *testing.T) {
	b := newBroken(t)
	if _, err := b.carry(Request{Yes: true, PoweredOff: "shop-0", Timeout: time.Second}, ""); err == nil {
		t.Fatal("somebody has taken the lease")
	}
	row := func(out, name string) string {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, name) {
				return line
			}
		}
		return ""
	}
	const has, chosen = "was primary last and has every acknowledged commit", "was chosen by the last failover and has not taken the lease"
	out, err := b.carry(Request{}, "")
	if err == nil || !strings.Contains(row(out, "shop-0"), has) || !strings.Contains(row(out, "shop-2"), chosen) || !strings.Contains(row(out, "shop-2"), "0/320 on timeline 4") {
		t.Error(err, out)
	}
	lease := b.lease() // as its agent writes it
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = ptr.To("shop-2"), ptr.To(*lease.Spec.LeaseTransitions+1)
	lease.Annotations[annotation] = `{"generation":"g1","timeline":5,"lastHolder":"shop-2","started":"now","members":[]}`
	for _, holder := range []*string{ptr.To("shop-2"), nil} { // it leads, and has given the lease up since
		lease.Spec.HolderIdentity = holder
		if err := b.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if out, err = b.carry(Request{}, ""); err == nil || !strings.Contains(row(out, "shop-2"), has) || strings.Contains(row(out, "shop-0"), has) {
			t.Error(err, out)
		}
	}
	out, err = b.carry(Request{To: "shop-1", Yes: true, PoweredOff: "shop-2", Timeout: time.Second}, "")
	if err == nil || !strings.Contains(out, "shop-1 followed too far behind") {
		t.Fatal(err, out)
	}
	if out, _ = b.carry(Request{}, ""); !strings.Contains(row(out, "shop-2"), has) || !strings.Contains(row(out, "shop-1"), chosen) {
		t.Errorf("the second failover isn't forgotten:\n%s", out)
	}
}

func TestThatNobodyKnowsWhoHasMostIsNotForgotten(t *testing.T) {
	b := newBroken(t)
	lease := b.lease()
	lease.Annotations, lease.Spec = nil, coordinationv1.LeaseSpec{}
	if err := b.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.PostgresCluster{}
	if err := b.Get(t.Context(), b.key, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Status.DataGeneration = "g1"
	if err := b.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if out, err := b.carry(Request{To: "shop-2", Yes: true, PoweredOff: "shop-0", Timeout: time.Second}, ""); err == nil {
		t.Fatal("somebody has taken the lease", out)
	}
	if out, err := b.carry(Request{Yes: true, PoweredOff: "shop-0"}, ""); err == nil || !strings.Contains(err.Error(), "it is not known which instance has the most WAL") {
		t.Error(err, out)
	}
}
