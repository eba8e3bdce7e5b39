package report

import (
	"testing"
	"time"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
)

func TestHowMuchWasWrittenIsPublishedWhileThePreviousDataIsKept(t *testing.T) {
	o := observedtest.Running(func(o *observed.Cluster) { o.Cluster.Status.PreviousDataGeneration = "g0" })
	look := func(after time.Duration, lsn uint64) *v1alpha1.WrittenData {
		o.Now = observedtest.Noon.Add(after)
		o.PrimaryAgent().LSN = lsn
		reportWritten(o)
		return o.Cluster.Status.Written
	}
	if first := look(0, 0); first != nil {
		t.Fatalf("before the agent has said where it is: %+v", first)
	}
	if first := look(0, 0x3000000); first == nil || first.FromLSN != "0/3000000" || first.WALBytes != 0 || first.DataGeneration != o.Cluster.Status.DataGeneration {
		t.Fatalf("at first: %+v", first)
	}
	if soon := look(30*time.Second, 0x3000100); soon.WALBytes != 0 {
		t.Errorf("within a minute: %+v", soon)
	}
	later := look(2*time.Minute, 0x4000000)
	if later.WALBytes != 1<<24 || later.LSN != "0/4000000" || later.FromLSN != "0/3000000" || !later.Time.Equal(observed.TimeOf(o.Now)) {
		t.Errorf("later: %+v", later)
	}
	if same := look(4*time.Minute, 0x4000000); same != later {
		t.Errorf("nothing was written: %+v", same)
	}
	look(4*time.Minute+time.Second, 0x4000100)
	o.Cluster.Status.VolumeLocks = []v1alpha1.VolumeLock{{State: v1alpha1.VolumeLockQueued, StoppingSince: observed.TimeOf(o.Now)}}
	if last := look(4*time.Minute+2*time.Second, 0x5000000); last.LSN != "0/5000000" || last.WALBytes != 1<<25 {
		t.Errorf("while it is being stopped for a requester: %+v", last)
	}
	o.Cluster.Status.PreviousDataGeneration = ""
	if gone := look(6*time.Minute, 0x9000000); gone != nil {
		t.Errorf("without previous data: %+v", gone)
	}
}
