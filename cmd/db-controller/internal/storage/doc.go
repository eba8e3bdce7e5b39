// Package storage gives each instance a volume of the desired size, lets volumes grow as spec.storage.autoGrow requests, says how full
// they are, and deletes or leaves them behind as spec.deletionPolicy requests.
package storage

import (
	"k8s.io/client-go/tools/events"

	"howdah.dev/howdah/cmd/db-controller/internal/apply"
)

// Steps that write volumes. Each is a step of a plan.
type Steps struct {
	*apply.Applier
	// Events are where volumes that are left behind are announced.
	Events events.EventRecorder
}
