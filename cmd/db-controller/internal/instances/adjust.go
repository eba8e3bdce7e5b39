package instances

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/autoscale"
	"howdah.dev/howdah/cmd/db-controller/internal/component/statefulset"
	"howdah.dev/howdah/cmd/db-controller/internal/desired"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/pkg/flow"
)

// AdjustRequests gives running pods the requests that were decided automatically. No pod is replaced for them: where one can't have them, all
// return to those from before.
func (s *Steps) AdjustRequests(ctx context.Context, o *observed.Cluster) flow.Outcome {
	if o.Cluster.Status.AppliedRequests() == nil {
		return flow.Next
	}
	for ordinal := range o.Wanted() {
		pod := o.Pod(ordinal)
		if pod == nil || !current(o, pod, ordinal) {
			continue
		}
		refused, err := s.adjust(ctx, o, pod)
		if err != nil {
			return flow.Retry(err)
		}
		if refused != "" && autoscale.TakeBack(o, fmt.Sprintf("Pod %s: %s", pod.Name, refused)) {
			return flow.Save(v1alpha1.ReasonApplying, "The instances return to their previous requests. "+o.Cluster.Status.AppliedRequests().Refused)
		}
	}
	return flow.Next
}

// current: the pod is neither resized for spec nor to be replaced.
func current(o *observed.Cluster, pod *corev1.Pod, ordinal int) bool {
	resizing, _ := desired.ResizeOf(o, pod)
	return resizing == statefulset.ResizeNot && desired.Changes(o, ordinal) == ""
}

func (s *Steps) adjust(ctx context.Context, o *observed.Cluster, pod *corev1.Pod) (refused string, err error) {
	switch state, why := statefulset.Adjust(pod, o.Cluster, o.Now); state {
	case statefulset.ResizeDue:
		return s.giveResources(ctx, o, pod)
	case statefulset.ResizeNot:
		return why, nil
	}
	return "", nil
}
