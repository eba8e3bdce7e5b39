package availability

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/workload"
)

func TestAPodThatWaitsForAnImageNamesIt(t *testing.T) {
	const postgres, agent = "registry.local/postgresql:18", "registry.local/howdah/agent:1"
	for name, test := range map[string]struct{ missing, message string }{
		"its own":          {postgres, `failed to pull and unpack image "registry.local/postgresql:18": not found`},
		"the mounted one":  {agent, `Back-off pulling image "registry.local/howdah/agent:1": ErrImagePull: not found`},
		"nothing is named": {postgres, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: postgres}}}}
			pod.Name = "shop-0"
			workload.Agent{Image: agent, Mounted: true}.Bring(&pod.Spec)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "postgres", Image: postgres, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: test.message},
			}}}
			reason, message := PodTrouble(pod)
			if reason != v1alpha1.ReasonImageUnavailable || !strings.HasPrefix(message, "Pod shop-0 can't pull the image "+test.missing+": ErrImagePull: ") {
				t.Errorf("%s: %s", reason, message)
			}
		})
	}
}
