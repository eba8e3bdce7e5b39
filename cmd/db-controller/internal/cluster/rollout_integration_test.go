//go:build integration

package cluster

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/rollout"
	"howdah.dev/howdah/test/testkit/subset"
)

// TestAnImageReachesCanariesFirstAndThenOneClusterAfterTheOther has a controller restarted while clusters wait.
func TestAnImageReachesCanariesFirstAndThenOneClusterAfterTheOther(t *testing.T) {
	subset.OnlyInFull(t)
	l := newLab(t)
	l.stop()
	l.rollouts = rollout.Settings{MaxConcurrent: 1}
	l.startController()
	clusters := map[string]*v1alpha1.PostgresCluster{}
	for _, name := range []string{"blog", "news", "wiki"} {
		clusters[name] = l.shop(func(cluster *v1alpha1.PostgresCluster) {
			three(cluster)
			cluster.Name = name
		})
	}
	for _, cluster := range clusters {
		l.awaitReplicated(cluster)
	}
	canary := clusters["wiki"]
	l.forgetMade()
	l.change(canary, func() {
		canary.Labels = map[string]string{v1alpha1.LabelCanary: "true"}
		canary.Spec.Image = "postgres:17.6"
	})
	for _, name := range []string{"blog", "news"} {
		l.change(clusters[name], func() { clusters[name].Spec.Image = "postgres:17.6" })
	}
	l.stop()
	l.startController()
	for name, cluster := range clusters {
		l.eventually(name+" runs in the image", func() bool {
			l.get(cluster)
			return cluster.Status.Image == "postgres:17.6" && cluster.Status.Rollout == nil
		})
		l.awaitReplicated(cluster)
	}
	made := l.made()
	order := slices.Compact(slices.Collect(func(yield func(string) bool) {
		for _, pod := range made {
			if !yield(strings.Split(pod, "-")[0]) {
				return
			}
		}
	}))
	if len(order) != 3 || order[0] != "wiki" {
		t.Errorf("pods were made in this order: %v", made)
	}
}
