package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"howdah.dev/apis/v1alpha1"
)

// awaitsCanary says why a cluster doesn't run in the image yet for the sake of a canary; empty: it may. canaries are those that count for it.
func awaitsCanary(canaries []v1alpha1.PostgresCluster, image string) string {
	for i := range canaries {
		canary := &canaries[i]
		name := canary.Namespace + "/" + canary.Name
		switch state := stateOf(canary, image); state {
		case canaryRefused:
			return fmt.Sprintf("It waits, because the canary %s refused that image: %s To roll the image out anyway, remove the label %s from the canary.",
				name, canary.Status.RefusedImage.Message, v1alpha1.LabelCanary)
		case canaryPending:
			return fmt.Sprintf("It waits until the canary %s runs in that image.", name)
		case canaryUnready:
			return fmt.Sprintf("It waits until the canary %s, which runs in that image, is Ready.", name)
		}
	}
	return ""
}

type canaryState int

const (
	// canaryPassed: it runs well in the image, or isn't going to run in it.
	canaryPassed canaryState = iota
	canaryPending
	canaryUnready
	canaryRefused
)

// stateOf a canary with the image. One that is being deleted or hibernates shows nothing.
func stateOf(canary *v1alpha1.PostgresCluster, image string) canaryState {
	spec, status := &canary.Spec, &canary.Status
	wants := spec.Image == image || spec.Image == "" && status.PendingUpdate != nil && status.PendingUpdate.Image == image && follows(spec)
	switch {
	case !canary.DeletionTimestamp.IsZero() || spec.Hibernate:
		return canaryPassed
	case wants && status.RefusedImage != nil && status.RefusedImage.Image == image:
		return canaryRefused
	case status.Image != image && wants, status.ImageChange != nil && status.ImageChange.To == image:
		return canaryPending
	case status.Image == image && !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady):
		return canaryUnready
	}
	return canaryPassed
}

func follows(spec *v1alpha1.PostgresClusterSpec) bool {
	return spec.Updates != nil && spec.Updates.Minor == v1alpha1.UpdateAutomatic
}

// countFor keeps those canaries that count for a cluster of the namespace: its neighbours, and those of the namespaces that the
// administrator has named. Nobody else can have the clusters of others wait.
func countFor(canaries []v1alpha1.PostgresCluster, namespace string, everywhere []string) []v1alpha1.PostgresCluster {
	return slices.DeleteFunc(canaries, func(canary v1alpha1.PostgresCluster) bool {
		return canary.Namespace != namespace && !slices.Contains(everywhere, canary.Namespace)
	})
}
