//go:build integration

package pooler

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/protocol"
)

// change changes the status of the cluster, as the db-controller does.
func (l *lab) change(cluster *v1alpha1.PostgresCluster, how func(*v1alpha1.PostgresClusterStatus)) {
	l.Helper()
	before := cluster.DeepCopy()
	how(&cluster.Status)
	if err := l.Status().Patch(l.Context(), cluster, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
}

func TestAPoolerBeyondTheLimitSaysThatItGetsNoCertificate(t *testing.T) {
	l := newLab(t)
	shop := l.cluster()
	var older []v1alpha1.Pooler
	for n := 0; len(protocol.PoolersOf(shop, older)) == n; n++ { // one more than have a certificate
		p := v1alpha1.Pooler{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: fmt.Sprintf("a-%03d", n)}}
		p.Spec = v1alpha1.PoolerSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}, Instances: 1}
		if err := l.Create(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		older = append(older, p)
	}
	p := l.pooler(nil)
	want := fmt.Sprintf("PostgresCluster shop has certificates for its %d oldest Poolers, and this Pooler is not one of them.", len(older)-1)
	if ready := l.until(p, metav1.ConditionFalse, v1alpha1.ReasonLimitExceeded); !strings.HasPrefix(ready.Message, want) {
		t.Error(ready.Message)
	}
	l.change(shop, func(s *v1alpha1.PostgresClusterStatus) { s.Poolers = []string{"web"} })
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
}

func TestAPoolerSaysThatItsClusterIsNotReady(t *testing.T) {
	l := newLab(t)
	shop := l.cluster()
	l.change(shop, func(s *v1alpha1.PostgresClusterStatus) {
		flow.SetCondition(&s.Conditions, shop, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, "All instances are stopped.")
	})
	p := l.pooler(nil)
	const why = "PostgresCluster shop is not ready: Hibernated: All instances are stopped."
	if ready := l.until(p, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingCertificate); !strings.HasSuffix(ready.Message, why) {
		t.Error(ready.Message)
	}
	l.change(shop, func(s *v1alpha1.PostgresClusterStatus) { s.Poolers = []string{"web"} })
	if ready := l.until(p, metav1.ConditionFalse, v1alpha1.ReasonClusterNotReady); !strings.HasSuffix(ready.Message, why) {
		t.Error(ready.Message)
	}
	l.change(shop, func(s *v1alpha1.PostgresClusterStatus) {
		flow.SetCondition(&s.Conditions, shop, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRunning, "PostgreSQL accepts connections.")
	})
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
}

func TestAPoolerForReadersSaysThatThereIsNoReplica(t *testing.T) {
	l := newLab(t)
	shop := l.cluster("web")
	p := l.pooler(func(s *v1alpha1.PoolerSpec) { s.Access = v1alpha1.PoolReadOnly })
	if ready := l.until(p, metav1.ConditionFalse, v1alpha1.ReasonNoReplica); !strings.Contains(ready.Message, "PostgresCluster shop has one instance, so there is no replica.") {
		t.Error(ready.Message)
	}
	before := shop.DeepCopy()
	shop.Spec.Instances = 2
	if err := l.Patch(t.Context(), shop, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
}

// PgBouncer reads it only when it starts. The policies of the suite admit the annotation, too.
func TestAChangeOfTheParametersThatPgBouncerTracksReplacesThePods(t *testing.T) {
	l := newLab(t)
	l.cluster("web")
	p := l.pooler(nil)
	l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
	d := &appsv1.Deployment{}
	for _, c := range []struct {
		parameters map[string]v1alpha1.PgBouncerValue
		want       string
		replaced   bool
	}{
		{map[string]v1alpha1.PgBouncerValue{"track_extra_parameters": "IntervalStyle, search_path"}, "IntervalStyle, search_path", true},
		{map[string]v1alpha1.PgBouncerValue{"track_extra_parameters": "IntervalStyle, search_path", "verbose": "1"}, "IntervalStyle, search_path", false},
		{map[string]v1alpha1.PgBouncerValue{"track_extra_parameters": "IntervalStyle"}, "IntervalStyle", true},
		{nil, "", true},
	} {
		l.read(d)
		generation, before := d.Generation, p.DeepCopy()
		p.Spec.PgBouncer.Parameters = c.parameters
		if err := l.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		l.until(p, metav1.ConditionFalse, v1alpha1.ReasonStarting)
		l.read(d)
		if got := d.Spec.Template.Annotations["howdah.dev/track-extra-parameters"]; got != c.want || (d.Generation != generation) != c.replaced {
			t.Errorf("%v: the pods have %q, generation %d after %d", c.parameters, got, d.Generation, generation)
		}
	}
}
