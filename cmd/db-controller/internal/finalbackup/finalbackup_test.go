package finalbackup

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

// The final backup may be hours old when a db-controller continues with the deletion: what was written since is in WAL alone.
func TestNothingIsStoppedWhileWALSinceTheFinalBackupIsNotArchived(t *testing.T) {
	failing := func(o *observed.Cluster) {
		o.Agents["shop-0"].Archive.FailingSince, o.Agents["shop-0"].Archive.Error = o.Now.Add(-time.Hour), "access denied"
	}
	for name, c := range map[string]struct {
		change func(*observed.Cluster)
		due    bool
	}{
		"all is archived":                        {observedtest.OrNothing(nil), false},
		"the archive fails":                      {failing, true},
		"it fails, and volumes stay":             {observedtest.All(failing, func(o *observed.Cluster) { o.Cluster.Spec.DeletionPolicy.Volumes = v1alpha1.VolumesRetain }), false},
		"it fails, and a person wants no backup": {observedtest.All(failing, func(o *observed.Cluster) { o.Cluster.Spec.DeletionPolicy.FinalBackup = new(bool) }), false},
		"it failed, and is being stopped":        {observedtest.All(failing, func(o *observed.Cluster) { *o.StatefulSet().Spec.Replicas = 0 }), false},
	} {
		o := observedtest.Running(func(o *observed.Cluster) {
			observedtest.Archiving(o)
			o.Cluster.DeletionTimestamp = &metav1.Time{Time: observedtest.Noon}
			o.Cluster.Status.BackupRequest = &v1alpha1.BackupRequest{Token: "t"}
			o.FinalBackup = &v1alpha1.Backup{Spec: v1alpha1.BackupSpec{RequestedBy: &v1alpha1.Requester{Token: "t"}}}
			o.FinalBackup.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionTrue}}
			c.change(o)
		})
		if Due(o) != c.due {
			t.Errorf("%s: the cluster continues: %v", name, !c.due)
		}
		if outcome := Await(t.Context(), o); c.due && (outcome.Finished() || !strings.Contains(outcome.Message, "access denied") || !strings.Contains(outcome.Message, "finalBackup: false")) {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

func TestPausesBetweenFinalBackupsGrow(t *testing.T) {
	for attempt, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 6: 32 * time.Minute, 7: time.Hour, 1000: time.Hour} {
		if got := pauseBefore(attempt); got != want {
			t.Errorf("before attempt %d: %s, want %s", attempt, got, want)
		}
	}
	if attemptOf("some-uid.12") != 12 || attemptOf("nonsense") != 0 {
		t.Error("the attempt in a token is not read")
	}
}
