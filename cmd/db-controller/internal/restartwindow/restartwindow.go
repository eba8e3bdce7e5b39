package restartwindow

import (
	"fmt"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/condition"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/phrase"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/updatewindow"
)

func at(spec *v1alpha1.MaintenanceWindow, now time.Time) (open bool, opens time.Time, err error) {
	return updatewindow.At(updatewindow.MaintenancePath, spec, now)
}

// Open says whether what runs may be taken down now.
func Open(o *observed.Cluster) bool {
	open, _, _ := at(o.Cluster.Spec.MaintenanceWindow, o.Now)
	return open
}

// Period is the window that is open, or else the next one, for agents: nil where there is none, which is always open. One that is
// invalid never opens.
func Period(o *observed.Cluster) *agentapi.Period {
	spec := o.Cluster.Spec.MaintenanceWindow
	if spec == nil {
		return nil
	}
	_, opens, err := at(spec, o.Now)
	if err != nil {
		return &agentapi.Period{}
	}
	return &agentapi.Period{From: opens.UTC(), To: opens.Add(spec.Duration.Duration).UTC()}
}

// Condition says that nobody knows when PostgreSQL may be restarted.
func Condition(o *observed.Cluster) condition.Finding {
	if _, _, err := at(o.Cluster.Spec.MaintenanceWindow, o.Now); err != nil {
		return condition.False(v1alpha1.ReasonInvalidWindow, "Nothing is restarted: "+phrase.Sentence(err.Error()))
	}
	return condition.Finding{}
}

// Wait says until when a change waits; empty: it doesn't.
func Wait(o *observed.Cluster) string {
	open, opens, err := at(o.Cluster.Spec.MaintenanceWindow, o.Now)
	if open || err != nil {
		return ""
	}
	return fmt.Sprintf(" It waits for the maintenance window, which opens on %s.", opens.Format("2006-01-02 at 15:04 MST"))
}
