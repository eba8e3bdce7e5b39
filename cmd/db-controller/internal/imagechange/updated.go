package imagechange

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/minorupdate"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
)

// Pending is the update that waits; nil: none does.
func Pending(o *observed.Cluster) *v1alpha1.PendingUpdate {
	image := minorupdate.Offered(o)
	if image == "" {
		return nil
	}
	pending := &v1alpha1.PendingUpdate{Image: image}
	if earliest := minorupdate.Earliest(o); minorupdate.Automatic(o) && earliest.After(o.Now) {
		pending.NotBefore = &metav1.Time{Time: earliest}
	}
	return pending
}

// Updated says whether the cluster runs in the suite's image for its version, and if not, what the update waits for. An empty reason: the
// cluster doesn't follow the suite's images.
func Updated(o *observed.Cluster) condition.Finding {
	status := &o.Cluster.Status
	offered, suites := minorupdate.Offered(o), o.Images[status.MajorVersion]
	switch {
	case !o.HasRun():
		return condition.Finding{}
	case minorupdate.UnderWay(o):
		return underWay(o)
	case o.Cluster.Spec.Image != "" || suites == "":
		return unfollowed(o)
	case offered == "":
		return condition.True(v1alpha1.ReasonCurrent, fmt.Sprintf("The cluster runs in the suite's image for PostgreSQL %d.", status.MajorVersion))
	case takenBack(o):
		return condition.False(v1alpha1.ReasonImageRefused, refusedMessage(o))
	case !minorupdate.Automatic(o):
		return condition.False(v1alpha1.ReasonUpdatePending, fmt.Sprintf(
			"The suite's image for PostgreSQL %d is %s, and the cluster runs in %s. To roll it out, set spec.updates.minor: Automatic, or spec.image: %[2]s.",
			status.MajorVersion, offered, status.Image))
	case minorupdate.Invalid(o) != "":
		return condition.False(v1alpha1.ReasonInvalidWindow, minorupdate.Invalid(o))
	}
	if waits := cmp.Or(minorupdate.Hold(o), minorupdate.Obstacle(o), o.RolloutWait); waits != "" {
		return condition.False(v1alpha1.ReasonUpdatePending, fmt.Sprintf("The image %s is going to replace %s. %s", offered, status.Image, waits))
	}
	return trying(o, offered)
}

// unfollowed is the condition of a cluster that doesn't follow the suite's images. It has one only where it was told to.
func unfollowed(o *observed.Cluster) condition.Finding {
	switch {
	case !minorupdate.Automatic(o):
		return condition.Finding{}
	case o.Cluster.Spec.Image != "":
		return condition.True(v1alpha1.ReasonImagePinned,
			"No update is rolled out, because spec.image names the image. To follow the suite's images, remove spec.image.")
	}
	return condition.False(v1alpha1.ReasonUnknownVersion, fmt.Sprintf(
		"No update can come, because the suite has no image for PostgreSQL %d. Set postgres.images in the values of its chart, or spec.image.", o.Cluster.Status.MajorVersion))
}

// underWay says how far an automatic update is.
func underWay(o *observed.Cluster) condition.Finding {
	change, runs := o.Cluster.Status.ImageChange, 0
	for ordinal := range o.Reach() {
		if pod := o.Pod(ordinal); pod != nil && imageOf(pod) == change.To && o.Serving(ordinal) {
			runs++
		}
	}
	message := fmt.Sprintf("%d of %d instances run in the new image %s.", runs, o.Reach(), change.To)
	if hold := minorupdate.Hold(o); hold != "" {
		return condition.False(v1alpha1.ReasonUpdatePending, fmt.Sprintf(
			"%s The others are not updated yet: %s To update them now, set spec.image: %s. To go back, set spec.image: %s.", message, phrase.Sentence(hold), change.To, change.From))
	}
	return condition.False(v1alpha1.ReasonApplying, message)
}

// AwaitsUpdate says whether the instance has yet to run in the image of an automatic update.
func AwaitsUpdate(o *observed.Cluster, ordinal int) bool {
	pod := o.Pod(ordinal)
	return minorupdate.UnderWay(o) && pod != nil && imageOf(pod) != o.Cluster.Status.Image
}
