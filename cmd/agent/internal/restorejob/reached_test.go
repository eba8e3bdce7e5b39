package restorejob

import (
	"errors"
	"testing"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/postgres"
)

// A running cluster takes its archive further while a restore replays it. What was there when replay began is what counts.
func TestReplayHasToReachTheEndThatTheArchiveHadWhenItBegan(t *testing.T) {
	r := &restoring{toTheEnd: true, extent: 0x4023078, last: postgres.Segment{Timeline: 1, Number: 4, SegSize: 16 << 20}}
	if err := r.checkReached(0x4023078, ""); err != nil {
		t.Error(err)
	}
	var failure *job.Failure
	if err := r.checkReached(0x4023000, ""); !errors.As(err, &failure) || failure.Reason != ReasonDataCorrupt {
		t.Errorf("%v", err)
	}
	r.toTheEnd = false
	if err := r.checkReached(0x4000000, ""); err != nil {
		t.Error(err)
	}
	r.toTheEnd = true
	if r.noteExtent(t.Context(), wal.New(mem.New())); r.checkReached(0x4023078, "") == nil {
		t.Error("the end of an archive that can't be read counts as reached")
	}
}
