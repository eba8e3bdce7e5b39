package rolling

import (
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/volumegrant"
)

// Held says by what in spec a person keeps all instances from running and from taking over; empty: by nothing. Whatever takes an
// instance out of a healthy cluster waits for it.
func Held(o *observed.Cluster) string {
	failover := o.Cluster.Spec.Failover
	switch {
	case o.Cluster.Spec.Hibernate:
		return "The cluster is hibernated."
	case failover != nil && failover.PausedUntil != nil && o.Now.Before(failover.PausedUntil.Time):
		return fmt.Sprintf("spec.failover.pausedUntil keeps instances from taking over until %s.", failover.PausedUntil.UTC().Format(time.RFC3339))
	case failover != nil && len(failover.Fenced) > 0:
		return "spec.failover.fenced stops an instance."
	}
	return ""
}

// Busy says what else is done to the instances; empty: nothing.
func Busy(o *observed.Cluster) string {
	status := &o.Cluster.Status
	_, locked := volumegrant.LockedBy(o)
	switch {
	case locked != "":
		return locked
	case o.Operation != "":
		return fmt.Sprintf("%s has not ended.", o.Operation)
	case status.Switchover != nil && status.Switchover.State == v1alpha1.SwitchoverRunning:
		return "A switchover has not ended."
	case status.Cloning() != "":
		return fmt.Sprintf("%s is being cloned again.", status.Cloning())
	case status.ImageChange != nil:
		return "A change of image has not reached every instance."
	}
	return ""
}
