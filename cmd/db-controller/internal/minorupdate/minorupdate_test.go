package minorupdate

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/protocol"
)

// automatic is a cluster of three to which the suite offers another image, and which takes it by itself.
func automatic(more ...func(*observed.Cluster)) *observed.Cluster {
	return observedtest.Trio(func(o *observed.Cluster) {
		o.Images = map[int32]string{17: "postgres:17.6", 18: "postgres:18.1"}
		o.Cluster.Spec.Updates = &v1alpha1.Updates{Minor: v1alpha1.UpdateAutomatic}
		observedtest.All(more...)(o)
	})
}

func TestTheSuitesImageIsOfferedToAClusterThatNamesNone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		want   string
	}{
		"another one":                   {func(*observed.Cluster) {}, "postgres:17.6"},
		"the one that runs":             {func(o *observed.Cluster) { o.Images[17] = "postgres:17" }, ""},
		"none for the version":          {func(o *observed.Cluster) { delete(o.Images, 17) }, ""},
		"spec names one":                {func(o *observed.Cluster) { o.Cluster.Spec.Image = "mine:17" }, ""},
		"it has never run":              {func(o *observed.Cluster) { o.Cluster.Status.SystemIdentifier = "" }, ""},
		"spec wants another major one":  {func(o *observed.Cluster) { o.Cluster.Spec.Version = 18 }, "postgres:17.6"},
		"by hand it is offered as well": {func(o *observed.Cluster) { o.Cluster.Spec.Updates = nil }, "postgres:17.6"},
	} {
		if got := Offered(automatic(c.change)); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestNothingHappensByItselfWhereSpecSaysOtherwiseOrTheTimeHasNotCome(t *testing.T) {
	at := func(hour int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC)}
	}
	spec := func(change func(*v1alpha1.PostgresClusterSpec)) func(*observed.Cluster) {
		return func(o *observed.Cluster) { change(&o.Cluster.Spec) }
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		says   string
	}{
		"nothing is in the way":    {func(*observed.Cluster) {}, ""},
		"by hand":                  {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Updates.Minor = v1alpha1.UpdateManual }), "is not Automatic"},
		"by default":               {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Updates = nil }), "is not Automatic"},
		"spec names another image": {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Image = "mine:17" }), "names another image"},
		"too early":                {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Updates.NotBefore = at(15) }), "until 2026-03-01 at 15:00 UTC"},
		"early enough":             {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Updates.NotBefore = at(11) }), ""},
		"its window is shut": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.Updates.Window = observedtest.WindowOf("0 3 * * *", "UTC", time.Hour)
		}), "until 2026-03-02 at 03:00 UTC"},
		"its window is open": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.Updates.Window = observedtest.WindowOf("0 11 * * *", "UTC", 2*time.Hour)
		}), ""},
		"the other window is shut": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.MaintenanceWindow = observedtest.WindowOf("0 3 * * *", "UTC", time.Hour)
		}), "until 2026-03-02 at 03:00 UTC"},
		"its own counts, not the other": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.MaintenanceWindow, s.Updates.Window = observedtest.WindowOf("0 3 * * *", "UTC", time.Hour), observedtest.WindowOf("0 11 * * *", "UTC", 2*time.Hour)
		}), ""},
		"open now, shut when it may": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.Updates.NotBefore, s.Updates.Window = at(14), observedtest.WindowOf("0 11 * * *", "UTC", 2*time.Hour)
		}), "until 2026-03-02 at 11:00 UTC"},
		"a window that is none": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.Updates.Window = observedtest.WindowOf("0 33 * * *", "UTC", time.Hour)
		}), "spec.updates.window.schedule \"0 33 * * *\" is not a cron expression"},
		"hibernated":         {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Hibernate = true }), "spec.hibernate"},
		"failover is paused": {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Failover = &v1alpha1.Failover{PausedUntil: at(13)} }), "2026-03-01T13:00:00Z"},
		"repairs are paused": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.Repair = &v1alpha1.Repair{PausedFrom: at(11), PausedUntil: at(13)}
		}), "2026-03-01T13:00:00Z"},
		"repairs are no longer paused": {spec(func(s *v1alpha1.PostgresClusterSpec) {
			s.Repair = &v1alpha1.Repair{PausedFrom: at(10), PausedUntil: at(11)}
		}), ""},
		"failover is no longer paused": {spec(func(s *v1alpha1.PostgresClusterSpec) { s.Failover = &v1alpha1.Failover{PausedUntil: at(11)} }), ""},
	} {
		if got := Hold(automatic(c.change)); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAnUpdateBeginsOnlyWhereAllIsWellAndNobodyElseWorksOnTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		says   string
	}{
		"all is well":               {func(*observed.Cluster) {}, ""},
		"an Upgrade is under way":   {func(o *observed.Cluster) { o.Operation = "Upgrade to-18" }, "until Upgrade to-18 has ended"},
		"the volumes are wanted":    {func(o *observed.Cluster) { o.Requests = make([]protocol.LockRequest, 1) }, "no Restore or Upgrade requests the volume lock"},
		"the volumes are locked":    {func(o *observed.Cluster) { o.Cluster.Status.VolumeLocks = make([]v1alpha1.VolumeLock, 1) }, "no Restore or Upgrade requests the volume lock"},
		"another change continues":  {func(o *observed.Cluster) { o.Cluster.Status.ImageChange = &v1alpha1.ImageChange{To: "mine:17"} }, "the change to mine:17"},
		"a replica doesn't respond": {func(o *observed.Cluster) { observedtest.Unready(o, 2) }, "until all instances are healthy: PostgreSQL in pod shop-2"},
		"a replica is yet to come":  {observedtest.Wants(4), "all instances that spec requests"},
	} {
		if got := Obstacle(automatic(c.change)); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
