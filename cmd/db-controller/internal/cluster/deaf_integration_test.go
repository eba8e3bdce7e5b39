//go:build integration

package cluster

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/test/testkit/subset"
)

// More clusters have a deaf agent than the controller has workers.
func TestNoClusterWaitsForTheDeafAgentOfAnother(t *testing.T) {
	subset.OneIn(t, 3)
	l := newLab(t)
	deaf := map[string]bool{}
	for i := range workers + 4 {
		name := fmt.Sprintf("deaf-%d", i)
		deaf[name] = true
		l.shop(func(c *v1alpha1.PostgresCluster) { c.Name = name })
	}
	shop := l.shop(nil)
	l.awaitRunning(shop)
	for name := range deaf {
		l.awaitRunning(&v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}})
	}
	l.kube.set(func(s *standIn) { s.deaf = deaf })
	for name := range deaf { // each is looked at, and found to be silent
		l.awaitUnheard(name)
	}
	l.change(shop, func() { shop.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "7MB"} })
	l.awaitRunning(shop)
	l.kube.set(func(s *standIn) {
		if s.inWorkers > 0 || s.looks == 0 {
			t.Errorf("the controller's workers waited for %d of %d answers of agents", s.inWorkers, s.looks)
		}
	})
}

// awaitUnheard changes a cluster whose agent doesn't respond, which is done all the same.
func (l *lab) awaitUnheard(name string) {
	l.Helper()
	cluster := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}}
	before := l.kube.config(context.Background(), name).Hash()
	l.change(cluster, func() { cluster.Spec.PostgreSQL.Parameters = map[string]v1alpha1.ParameterValue{"work_mem": "6MB"} })
	l.eventually(name+" has another configuration", func() bool {
		config := l.kube.config(context.Background(), name)
		return config != nil && config.Hash() != before
	})
	pods := &corev1.PodList{}
	if err := l.List(context.Background(), pods, client.InNamespace(l.ns), client.MatchingLabels{v1alpha1.LabelCluster: name}); err != nil || len(pods.Items) != 1 {
		l.Errorf("%s has %d pods after its agent has gone silent: %v", name, len(pods.Items), err)
	}
}
