package protocol

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestTheCertificateOfAClusterIsForItsOwnPoolersAndNoOthers(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "shop"}}
	pooler := func(namespace, name, of string, change func(*v1alpha1.Pooler)) v1alpha1.Pooler {
		p := v1alpha1.Pooler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.PoolerSpec{Cluster: v1alpha1.LocalReference{Name: of}}}
		if change != nil {
			change(&p)
		}
		return p
	}
	now := metav1.Now()
	got := PoolersOf(cluster, []v1alpha1.Pooler{
		pooler("demo", "web", "shop", nil), pooler("demo", "batch", "shop", nil), pooler("demo", "other", "orders", nil),
		pooler("prod", "web", "shop", nil), pooler("demo", "leaving", "shop", func(p *v1alpha1.Pooler) { p.DeletionTimestamp = &now }),
	})
	if !slices.Equal(got, []string{"batch", "web"}) {
		t.Errorf("got %v", got)
	}
	cluster.Status.Poolers = got
	web, other := pooler("demo", "web", "shop", nil), pooler("demo", "other", "shop", nil)
	if !PoolerAdmitted(cluster, &web) || PoolerAdmitted(cluster, &other) {
		t.Error("the wrong Poolers are admitted")
	}
}

func TestTheOldestPoolersKeepTheirCertificateWhereThereAreTooMany(t *testing.T) {
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	var all []v1alpha1.Pooler
	for i := range mostPoolers + 1 {
		all = append(all, v1alpha1.Pooler{
			ObjectMeta: metav1.ObjectMeta{Name: string(rune('a'+i/26)) + string(rune('a'+i%26)), CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-i), 0))},
			Spec:       v1alpha1.PoolerSpec{Cluster: v1alpha1.LocalReference{Name: "shop"}},
		})
	}
	if got := PoolersOf(cluster, all); len(got) != mostPoolers || slices.Contains(got, "aa") {
		t.Errorf("%d: %v", len(got), got)
	}
}
