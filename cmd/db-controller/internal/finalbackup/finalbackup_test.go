package finalbackup

import (
	"testing"
	"time"
)

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
