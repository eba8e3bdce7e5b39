package restartwindow

import (
	"testing"
	"time"

	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestAgentsAreToldTheWindowThatIsOpenOrElseTheNext(t *testing.T) {
	o := observedtest.Running(func(*observed.Cluster) {})
	for hour, want := range map[int]string{2: "2026-03-01T03:00:00Z 2026-03-01T04:00:00Z", 3: "2026-03-01T03:00:00Z 2026-03-01T04:00:00Z", 4: "2026-03-08T03:00:00Z 2026-03-08T04:00:00Z"} {
		o.Now, o.Cluster.Spec.MaintenanceWindow = time.Date(2026, 3, 1, hour, 30, 0, 0, time.UTC), observedtest.WindowOf("0 3 * * 0", "UTC", time.Hour)
		if p := Period(o); p == nil || p.From.Format(time.RFC3339)+" "+p.To.Format(time.RFC3339) != want {
			t.Errorf("at %d:30 %v", hour, p)
		}
	}
	o.Cluster.Spec.MaintenanceWindow = nil
	if p := Period(o); p != nil {
		t.Errorf("without a window: %v", p)
	}
}
