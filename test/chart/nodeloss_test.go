//go:build chart

package chart

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

const (
	unreachable = "node.kubernetes.io/unreachable"
	notReady    = "node.kubernetes.io/not-ready"
)

func TestEachControllerOutlivesTheNodeOfItsLeader(t *testing.T) {
	objects := render(t)
	for _, object := range ofKind(objects, "Deployment") {
		deployment := as[appsv1.Deployment](t, object)
		pod := deployment.Spec.Template.Spec
		if *deployment.Spec.Replicas != 2 || !slices.Contains(pod.Containers[0].Args, "--leader-elect") {
			t.Errorf("%s has %d replicas, and arguments %v", deployment.Name, *deployment.Spec.Replicas, pod.Containers[0].Args)
		}
		var keys []string
		for _, spread := range pod.TopologySpreadConstraints {
			keys = append(keys, spread.TopologyKey)
			if spread.LabelSelector.MatchLabels["app.kubernetes.io/name"] != deployment.Name || spread.WhenUnsatisfiable != corev1.ScheduleAnyway ||
				!slices.Equal(spread.MatchLabelKeys, []string{"pod-template-hash"}) {
				t.Errorf("%s is spread by %+v", deployment.Name, spread)
			}
		}
		if !slices.Equal(keys, []string{corev1.LabelTopologyZone, corev1.LabelHostname}) {
			t.Errorf("%s is spread over %v", deployment.Name, keys)
		}
		if got := secondsOnALostNode(pod); got[unreachable] != 10 || got[notReady] != 10 || len(pod.Tolerations) != 2 {
			t.Errorf("%s stays on a lost node: %v", deployment.Name, pod.Tolerations)
		}
	}
	for _, object := range ofKind(objects, "PodDisruptionBudget") {
		if budget := as[policyv1.PodDisruptionBudget](t, object); budget.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s: %+v", budget.Name, budget.Spec)
		}
	}
}

func secondsOnALostNode(pod corev1.PodSpec) map[string]int64 {
	seconds := map[string]int64{}
	for _, toleration := range pod.Tolerations {
		if toleration.Effect == corev1.TaintEffectNoExecute && toleration.TolerationSeconds != nil {
			seconds[toleration.Key] = *toleration.TolerationSeconds
		}
	}
	return seconds
}

func TestWhatTheValuesSayOfLostNodesCounts(t *testing.T) {
	const prefix = "controllers.db-controller."
	for name, c := range map[string]struct {
		sets []string
		want map[string]int64
	}{
		"another taint": {
			[]string{prefix + "tolerations[0].key=dedicated", prefix + "tolerations[0].operator=Exists"},
			map[string]int64{unreachable: 10, notReady: 10},
		},
		"one of the two": {
			[]string{
				prefix + "tolerations[0].key=" + unreachable, prefix + "tolerations[0].operator=Exists",
				prefix + "tolerations[0].effect=NoExecute", prefix + "tolerations[0].tolerationSeconds=60",
			},
			map[string]int64{unreachable: 60, notReady: 10},
		},
		"every taint": {[]string{prefix + "tolerations[0].operator=Exists"}, map[string]int64{}},
		"every taint that only keeps pods away": {
			[]string{prefix + "tolerations[0].operator=Exists", prefix + "tolerations[0].effect=NoSchedule"},
			map[string]int64{unreachable: 10, notReady: 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, object := range ofKind(render(t, c.sets...), "Deployment") {
				if object.GetName() != "db-controller" {
					continue
				}
				got := secondsOnALostNode(as[appsv1.Deployment](t, object).Spec.Template.Spec)
				if len(got) != len(c.want) || got[unreachable] != c.want[unreachable] || got[notReady] != c.want[notReady] {
					t.Errorf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestTheNumberOfReplicasIsSetForAllOrForOne(t *testing.T) {
	objects := render(t, "replicas=1", "controllers.db-controller.replicas=0", "controllers.db-controller.topologySpreadConstraints[0].topologyKey=rack")
	for _, object := range ofKind(objects, "Deployment") {
		deployment, want, spread := as[appsv1.Deployment](t, object), int32(1), corev1.LabelTopologyZone
		if deployment.Name == "db-controller" {
			want, spread = 0, "rack"
		}
		if *deployment.Spec.Replicas != want || deployment.Spec.Template.Spec.TopologySpreadConstraints[0].TopologyKey != spread {
			t.Errorf("%s: %d replicas, spread by %v", deployment.Name, *deployment.Spec.Replicas, deployment.Spec.Template.Spec.TopologySpreadConstraints)
		}
	}
}
