// Package minorupdate says which image of the suite a cluster is to be updated to, and when an update may continue that nobody has asked for.
package minorupdate

import (
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/availability"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/updatewindow"
)

// Offered is the suite's image for the version that runs, if the cluster runs in another one and spec names none; empty: there is none.
func Offered(o *observed.Cluster) string {
	image := o.Images[o.Cluster.Status.MajorVersion]
	if !o.HasRun() || o.Cluster.Spec.Image != "" || image == o.Cluster.Status.Image {
		return ""
	}
	return image
}

// Automatic says whether minor updates are rolled out without being asked for.
func Automatic(o *observed.Cluster) bool {
	spec := o.Cluster.Spec.Updates
	return spec != nil && spec.Minor == v1alpha1.UpdateAutomatic
}

// UnderWay says whether the image is being changed by an update that nobody has asked for. A person takes it over by naming its image.
func UnderWay(o *observed.Cluster) bool {
	change := o.Cluster.Status.ImageChange
	return change != nil && change.Automatic && o.Cluster.Spec.Image != change.To
}

// Invalid says what is wrong with the window of automatic updates; empty: nothing.
func Invalid(o *observed.Cluster) string {
	if _, err := updatewindow.Earliest(&o.Cluster.Spec, o.Now); err != nil {
		return "No update is rolled out: " + phrase.Sentence(err.Error())
	}
	return ""
}

// Earliest is when an automatic update may continue: now, or once it is not too early and the window is open. Zero: never, because the
// window is invalid.
func Earliest(o *observed.Cluster) time.Time {
	earliest, _ := updatewindow.Earliest(&o.Cluster.Spec, o.Now) // zero with an error
	return earliest
}

// Hold says why no automatic update continues now, not even one that has begun; empty: one may.
func Hold(o *observed.Cluster) string {
	failover, repair := o.Cluster.Spec.Failover, o.Cluster.Spec.Repair
	switch earliest := Earliest(o); {
	case o.Cluster.Spec.Image != "":
		return "spec.image names another image."
	case !Automatic(o):
		return "spec.updates.minor is not Automatic."
	case o.Cluster.Spec.Hibernate:
		return "It waits until spec.hibernate is false."
	case failover != nil && failover.PausedUntil != nil && o.Now.Before(failover.PausedUntil.Time):
		return fmt.Sprintf("It waits until failover is no longer paused, at %s.", failover.PausedUntil.UTC().Format(time.RFC3339))
	case repair.Paused(o.Now):
		return fmt.Sprintf("It waits until repairs are no longer paused, at %s.", repair.PausedUntil.UTC().Format(time.RFC3339))
	case earliest.IsZero():
		return Invalid(o)
	case earliest.After(o.Now):
		return fmt.Sprintf("It waits until %s.", earliest.Format("2006-01-02 at 15:04 MST"))
	}
	return ""
}

// Obstacle says why no automatic update begins now, though its time has come; empty: one may.
func Obstacle(o *observed.Cluster) string {
	change, primary := o.Cluster.Status.ImageChange, o.Primary()
	switch {
	case o.Operation != "":
		return fmt.Sprintf("It waits until %s has ended.", o.Operation)
	case len(o.Requests) > 0 || len(o.Cluster.Status.VolumeLocks) > 0:
		return "It waits until no Restore or Upgrade requests the volume lock."
	case change != nil:
		return fmt.Sprintf("It waits until the change to %s has reached every instance.", change.To)
	case primary < 0 || o.Reach() != o.Wanted():
		return "It waits until all instances that spec requests run, with a primary."
	}
	for ordinal := range o.Wanted() {
		if why := availability.Unsettled(o, ordinal); why != "" {
			return "It waits until all instances are healthy: " + why
		}
	}
	return ""
}
